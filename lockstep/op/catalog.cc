#include "lockstep/op/catalog.h"

namespace lockstep::op {

OpDef ApplyAdagradDef();
OpDef ApplyAdamDef();
OpDef ApplyCenteredRMSPropDef();
OpDef ApplyGradientDescentDef();
OpDef ApplyMomentumDef();
OpDef ApplyRMSPropDef();
OpDef ArgMaxDef();
OpDef AssignDef();
OpDef AssignAddDef();
OpDef AssignSubDef();
OpDef AvgPoolDef();
OpDef AvgPoolGradDef();
OpDef BatchNormDef();
OpDef BatchNormGradDef();
OpDef BatchNormInferenceDef();
OpDef BatchNormInferenceGradDef();
OpDef BiasAddDef();
OpDef BiasAddGradDef();
OpDef CastDef();
OpDef ConstDef();
OpDef Conv2DDef();
OpDef Conv2DBackpropFilterDef();
OpDef Conv2DBackpropInputDef();
OpDef CrossReplicaSumDef();
OpDef ExpandReducedDef();
OpDef ExtremeSharesDef();
OpDef FusedBatchNormReluDef();
OpDef FusedBatchNormReluGradDef();
OpDef FusedConv2DDef();
OpDef FusedMatMulDef();
OpDef GlobalAveragePoolDef();
OpDef GlobalAveragePoolGradDef();
OpDef IdentityDef();
OpDef InTopKDef();
OpDef MatMulDef();
OpDef MaxPoolDef();
OpDef MaxPoolGradDef();
OpDef MaxPoolPickDef();
OpDef NoOpDef();
OpDef PlaceholderDef();
OpDef ReduceMaxDef();
OpDef ReduceMeanDef();
OpDef ReduceMinDef();
OpDef ReduceProdDef();
OpDef ReduceProdGradDef();
OpDef ReduceSumDef();
OpDef ReshapeDef();
OpDef ReshapeLikeDef();
OpDef SquareDef();
OpDef StopGradientDef();
OpDef VariableDef();

const OpCatalog& Catalog() {
  static const OpCatalog catalog({
      ApplyAdagradDef(),
      ApplyAdamDef(),
      ApplyCenteredRMSPropDef(),
      ApplyGradientDescentDef(),
      ApplyMomentumDef(),
      ApplyRMSPropDef(),
      ArgMaxDef(),
      AssignDef(),
      AssignAddDef(),
      AssignSubDef(),
      AvgPoolDef(),
      AvgPoolGradDef(),
      BatchNormDef(),
      BatchNormGradDef(),
      BatchNormInferenceDef(),
      BatchNormInferenceGradDef(),
      BiasAddDef(),
      BiasAddGradDef(),
      CastDef(),
      ConstDef(),
      Conv2DDef(),
      Conv2DBackpropFilterDef(),
      Conv2DBackpropInputDef(),
      CrossReplicaSumDef(),
      ExpandReducedDef(),
      ExtremeSharesDef(),
      FusedBatchNormReluDef(),
      FusedBatchNormReluGradDef(),
      FusedConv2DDef(),
      FusedMatMulDef(),
      GlobalAveragePoolDef(),
      GlobalAveragePoolGradDef(),
      IdentityDef(),
      InTopKDef(),
      MatMulDef(),
      MaxPoolDef(),
      MaxPoolGradDef(),
      MaxPoolPickDef(),
      NoOpDef(),
      PlaceholderDef(),
      ReduceMaxDef(),
      ReduceMeanDef(),
      ReduceMinDef(),
      ReduceProdDef(),
      ReduceProdGradDef(),
      ReduceSumDef(),
      ReshapeDef(),
      ReshapeLikeDef(),
      SquareDef(),
      StopGradientDef(),
      VariableDef(),
  });
  return catalog;
}

}  // namespace lockstep::op
