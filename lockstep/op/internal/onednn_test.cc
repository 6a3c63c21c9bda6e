#include "lockstep/op/internal/onednn.h"

#include <gtest/gtest.h>

namespace lockstep::op::internal {
namespace {

using Tag = dnnl::memory::format_tag;
constexpr auto kF32 = dnnl::memory::data_type::f32;

TEST(Onednn, PlainImagesAreNhwc) {
  const Shape shape{2, 5, 6, 3};
  EXPECT_EQ(ToDesc(shape, kF32, Layout(), kNhwcOrder),
            dnnl::memory::desc({2, 3, 5, 6}, kF32, Tag::nhwc));
  EXPECT_EQ(ToDesc(shape, kF32, Layout()), dnnl::memory::desc({2, 5, 6, 3}, kF32, Tag::abcd));
  EXPECT_EQ(ToDesc(Shape{3, 3, 4, 8}, kF32, Layout(), kHwioOrder),
            dnnl::memory::desc({8, 4, 3, 3}, kF32, Tag::hwio));
}

TEST(Onednn, BlockedDescriptionsSurviveTheRoundTrip) {
  struct Case {
    Shape shape;
    dnnl::memory::desc desc;
    DimOrder order;
  };

  const Case cases[] = {
      {Shape{2, 5, 6, 3}, {{2, 3, 5, 6}, kF32, Tag::nChw8c}, kNhwcOrder},
      {Shape{2, 16, 6, 3}, {{2, 16, 6, 3}, kF32, Tag::nChw16c}, kSameOrder},
      {Shape{3, 3, 20, 40}, {{40, 20, 3, 3}, kF32, Tag::OIhw8i8o}, kHwioOrder},
      {Shape{3, 3, 20, 40}, {{40, 20, 3, 3}, kF32, Tag::OIhw16o16i}, kHwioOrder},
      {Shape{3, 3, 3, 64}, {{64, 3, 3, 3}, kF32, Tag::Ohwi8o}, kHwioOrder},
      {Shape{2, 5, 6, 3}, {{2, 3, 5, 6}, kF32, Tag::nchw}, kNhwcOrder},
  };
  for (const Case& c : cases) {
    const std::optional<Layout> layout = ToLayout(c.shape, c.desc, c.order);
    ASSERT_TRUE(layout.has_value());
    EXPECT_FALSE(layout->is_plain());
    EXPECT_EQ(layout->Bytes(c.shape, DType::kFloat32), c.desc.get_size());
    EXPECT_EQ(ToDesc(c.shape, kF32, *layout, c.order), c.desc);
  }
}

TEST(Onednn, RowMajorBecomesPlain) {
  const dnnl::memory::desc desc({2, 3, 5, 6}, kF32, Tag::nhwc);
  EXPECT_EQ(ToLayout(Shape{2, 5, 6, 3}, desc, kNhwcOrder), Layout());
}

TEST(Onednn, ErrorsBecomeStatuses) {
  const Status status = Guarded([]() -> Status {
    const dnnl::memory::desc odd({2, 3}, kF32, Tag::abcd);
    return OkStatus();
  });
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(ToDataType(DType::kInt64).status().code(), StatusCode::kUnimplemented);
}

TEST(Onednn, ThreadScopeRestores) {
  const int before = omp_get_max_threads();
  {
    const OnednnThreads scope(before + 3);
    EXPECT_EQ(omp_get_max_threads(), before + 3);
  }
  EXPECT_EQ(omp_get_max_threads(), before);
}

}  // namespace
}  // namespace lockstep::op::internal
