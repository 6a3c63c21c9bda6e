#include "lockstep/op/catalog.h"

namespace lockstep::op {

OpDef AssignDef();
OpDef AssignAddDef();
OpDef AssignSubDef();
OpDef AvgPoolDef();
OpDef AvgPoolGradDef();
OpDef CastDef();
OpDef ConstDef();
OpDef Conv2DDef();
OpDef Conv2DBackpropFilterDef();
OpDef Conv2DBackpropInputDef();
OpDef CrossReplicaSumDef();
OpDef FusedConv2DDef();
OpDef FusedMatMulDef();
OpDef GlobalAveragePoolDef();
OpDef GlobalAveragePoolGradDef();
OpDef IdentityDef();
OpDef MatMulDef();
OpDef MaxPoolDef();
OpDef MaxPoolGradDef();
OpDef MaxPoolPickDef();
OpDef NoOpDef();
OpDef PlaceholderDef();
OpDef ReshapeDef();
OpDef ReshapeLikeDef();
OpDef SquareDef();
OpDef StopGradientDef();
OpDef VariableDef();

const OpCatalog& Catalog() {
  static const OpCatalog catalog({
      AssignDef(),
      AssignAddDef(),
      AssignSubDef(),
      AvgPoolDef(),
      AvgPoolGradDef(),
      CastDef(),
      ConstDef(),
      Conv2DDef(),
      Conv2DBackpropFilterDef(),
      Conv2DBackpropInputDef(),
      CrossReplicaSumDef(),
      FusedConv2DDef(),
      FusedMatMulDef(),
      GlobalAveragePoolDef(),
      GlobalAveragePoolGradDef(),
      IdentityDef(),
      MatMulDef(),
      MaxPoolDef(),
      MaxPoolGradDef(),
      MaxPoolPickDef(),
      NoOpDef(),
      PlaceholderDef(),
      ReshapeDef(),
      ReshapeLikeDef(),
      SquareDef(),
      StopGradientDef(),
      VariableDef(),
  });
  return catalog;
}

}  // namespace lockstep::op
