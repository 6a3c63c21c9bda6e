#include "lockstep/op/catalog.h"

namespace lockstep::op {

OpDef AbsDef();
OpDef AddDef();
OpDef AddNDef();
OpDef ApplyAdagradDef();
OpDef ApplyAdamDef();
OpDef ApplyCenteredRMSPropDef();
OpDef ApplyGradientDescentDef();
OpDef ApplyLambDef();
OpDef ApplyLarsDef();
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
OpDef BroadcastLikeDef();
OpDef CastDef();
OpDef ClipDef();
OpDef ClipGradDef();
OpDef ConcatDef();
OpDef ConstDef();
OpDef Conv2DDef();
OpDef Conv2DBackpropFilterDef();
OpDef Conv2DBackpropInputDef();
OpDef Conv2DTransposeDef();
OpDef CrossReplicaSumDef();
OpDef DivDef();
OpDef DropoutDef();
OpDef DropoutGradDef();
OpDef EluDef();
OpDef EluGradDef();
OpDef EqualDef();
OpDef ExpDef();
OpDef ExpandReducedDef();
OpDef ExtremeSharesDef();
OpDef FillDef();
OpDef FloorDef();
OpDef FusedBatchNormReluDef();
OpDef FusedBatchNormReluGradDef();
OpDef FusedConv2DDef();
OpDef FusedElementwiseDef();
OpDef FusedMatMulDef();
OpDef GatherDef();
OpDef GeluDef();
OpDef GeluGradDef();
OpDef GlobalAveragePoolDef();
OpDef GlobalAveragePoolGradDef();
OpDef GlobalNormDef();
OpDef GreaterDef();
OpDef GreaterEqualDef();
OpDef GroupNormDef();
OpDef GroupNormGradDef();
OpDef IdentityDef();
OpDef InTopKDef();
OpDef LayerNormDef();
OpDef LayerNormGradDef();
OpDef LeakyReluDef();
OpDef LeakyReluGradDef();
OpDef LessDef();
OpDef LessEqualDef();
OpDef LogDef();
OpDef LogSoftmaxDef();
OpDef LogSoftmaxGradDef();
OpDef LogicalAndDef();
OpDef LogicalNotDef();
OpDef LogicalOrDef();
OpDef MatMulDef();
OpDef MaxPoolDef();
OpDef MaxPoolGradDef();
OpDef MaxPoolPickDef();
OpDef MaximumDef();
OpDef MinimumDef();
OpDef MulDef();
OpDef NegDef();
OpDef NoOpDef();
OpDef NotEqualDef();
OpDef OneHotDef();
OpDef PadDef();
OpDef PadLikeDef();
OpDef PlaceholderDef();
OpDef PowDef();
OpDef RandomNormalDef();
OpDef RandomUniformDef();
OpDef ReciprocalDef();
OpDef RecvDef();
OpDef ReduceMaxDef();
OpDef ReduceMeanDef();
OpDef ReduceMinDef();
OpDef ReduceProdDef();
OpDef ReduceProdGradDef();
OpDef ReduceSumDef();
OpDef ReluDef();
OpDef ReluGradDef();
OpDef ReshapeDef();
OpDef ReshapeLikeDef();
OpDef RsqrtDef();
OpDef ScatterAddRowsDef();
OpDef SendDef();
OpDef ShapeOnlyDef();
OpDef SigmoidDef();
OpDef SigmoidCrossEntropyWithLogitsDef();
OpDef SigmoidGradDef();
OpDef SignDef();
OpDef SiluDef();
OpDef SiluGradDef();
OpDef SizeDef();
OpDef SliceDef();
OpDef SliceLikeDef();
OpDef SoftmaxDef();
OpDef SoftmaxCrossEntropyGradDef();
OpDef SoftmaxCrossEntropyWithLogitsDef();
OpDef SoftmaxGradDef();
OpDef SoftplusDef();
OpDef SparseApplyAdagradDef();
OpDef SparseApplyAdamDef();
OpDef SparseApplyGradientDescentDef();
OpDef SparseApplyMomentumDef();
OpDef SparseSoftmaxCrossEntropyGradDef();
OpDef SparseSoftmaxCrossEntropyWithLogitsDef();
OpDef SplitDef();
OpDef SqrtDef();
OpDef SquareDef();
OpDef SquaredDifferenceDef();
OpDef StopGradientDef();
OpDef SubDef();
OpDef SumLikeDef();
OpDef TanhDef();
OpDef TanhGradDef();
OpDef TransposeDef();
OpDef TruncatedNormalDef();
OpDef VariableDef();
OpDef WhereDef();

const OpCatalog& Catalog() {
  static const OpCatalog catalog({
      AbsDef(),
      AddDef(),
      AddNDef(),
      ApplyAdagradDef(),
      ApplyAdamDef(),
      ApplyCenteredRMSPropDef(),
      ApplyGradientDescentDef(),
      ApplyLambDef(),
      ApplyLarsDef(),
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
      BroadcastLikeDef(),
      CastDef(),
      ClipDef(),
      ClipGradDef(),
      ConcatDef(),
      ConstDef(),
      Conv2DDef(),
      Conv2DBackpropFilterDef(),
      Conv2DBackpropInputDef(),
      Conv2DTransposeDef(),
      CrossReplicaSumDef(),
      DivDef(),
      DropoutDef(),
      DropoutGradDef(),
      EluDef(),
      EluGradDef(),
      EqualDef(),
      ExpDef(),
      ExpandReducedDef(),
      ExtremeSharesDef(),
      FillDef(),
      FloorDef(),
      FusedBatchNormReluDef(),
      FusedBatchNormReluGradDef(),
      FusedConv2DDef(),
      FusedElementwiseDef(),
      FusedMatMulDef(),
      GatherDef(),
      GeluDef(),
      GeluGradDef(),
      GlobalAveragePoolDef(),
      GlobalAveragePoolGradDef(),
      GlobalNormDef(),
      GreaterDef(),
      GreaterEqualDef(),
      GroupNormDef(),
      GroupNormGradDef(),
      IdentityDef(),
      InTopKDef(),
      LayerNormDef(),
      LayerNormGradDef(),
      LeakyReluDef(),
      LeakyReluGradDef(),
      LessDef(),
      LessEqualDef(),
      LogDef(),
      LogSoftmaxDef(),
      LogSoftmaxGradDef(),
      LogicalAndDef(),
      LogicalNotDef(),
      LogicalOrDef(),
      MatMulDef(),
      MaxPoolDef(),
      MaxPoolGradDef(),
      MaxPoolPickDef(),
      MaximumDef(),
      MinimumDef(),
      MulDef(),
      NegDef(),
      NoOpDef(),
      NotEqualDef(),
      OneHotDef(),
      PadDef(),
      PadLikeDef(),
      PlaceholderDef(),
      PowDef(),
      RandomNormalDef(),
      RandomUniformDef(),
      ReciprocalDef(),
      RecvDef(),
      ReduceMaxDef(),
      ReduceMeanDef(),
      ReduceMinDef(),
      ReduceProdDef(),
      ReduceProdGradDef(),
      ReduceSumDef(),
      ReluDef(),
      ReluGradDef(),
      ReshapeDef(),
      ReshapeLikeDef(),
      RsqrtDef(),
      ScatterAddRowsDef(),
      SendDef(),
      ShapeOnlyDef(),
      SigmoidDef(),
      SigmoidCrossEntropyWithLogitsDef(),
      SigmoidGradDef(),
      SignDef(),
      SiluDef(),
      SiluGradDef(),
      SizeDef(),
      SliceDef(),
      SliceLikeDef(),
      SoftmaxDef(),
      SoftmaxCrossEntropyGradDef(),
      SoftmaxCrossEntropyWithLogitsDef(),
      SoftmaxGradDef(),
      SoftplusDef(),
      SparseApplyAdagradDef(),
      SparseApplyAdamDef(),
      SparseApplyGradientDescentDef(),
      SparseApplyMomentumDef(),
      SparseSoftmaxCrossEntropyGradDef(),
      SparseSoftmaxCrossEntropyWithLogitsDef(),
      SplitDef(),
      SqrtDef(),
      SquareDef(),
      SquaredDifferenceDef(),
      StopGradientDef(),
      SubDef(),
      SumLikeDef(),
      TanhDef(),
      TanhGradDef(),
      TransposeDef(),
      TruncatedNormalDef(),
      VariableDef(),
      WhereDef(),
  });
  return catalog;
}

}  // namespace lockstep::op
