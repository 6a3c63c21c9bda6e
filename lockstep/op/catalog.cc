#include "lockstep/op/catalog.h"

namespace lockstep::op {

OpDef AssignDef();
OpDef AssignAddDef();
OpDef AssignSubDef();
OpDef CastDef();
OpDef ConstDef();
OpDef Conv2DDef();
OpDef Conv2DBackpropFilterDef();
OpDef Conv2DBackpropInputDef();
OpDef CrossReplicaSumDef();
OpDef FusedConv2DDef();
OpDef FusedMatMulDef();
OpDef IdentityDef();
OpDef MatMulDef();
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
      CastDef(),
      ConstDef(),
      Conv2DDef(),
      Conv2DBackpropFilterDef(),
      Conv2DBackpropInputDef(),
      CrossReplicaSumDef(),
      FusedConv2DDef(),
      FusedMatMulDef(),
      IdentityDef(),
      MatMulDef(),
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
