#include "lockstep/op/catalog.h"

namespace lockstep::op {

OpDef AssignDef();
OpDef AssignAddDef();
OpDef AssignSubDef();
OpDef CastDef();
OpDef ConstDef();
OpDef CrossReplicaSumDef();
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
      CrossReplicaSumDef(),
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
