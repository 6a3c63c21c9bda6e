#include "lockstep/data/internal/scale.h"

#if defined(__x86_64__)
#include <immintrin.h>
#endif

namespace lockstep::data::internal {
namespace {

constexpr float kScale = 1.0F / 255.0F;
static_assert(255.0F * kScale == 1.0F);

void ScalePortable(const uint8_t* source, size_t count, float* target) {
  for (size_t i = 0; i < count; ++i) {
    target[i] = static_cast<float>(source[i]) * kScale;
  }
}

#if defined(__x86_64__)

__attribute__((target("avx2"))) void ScaleAvx2(const uint8_t* source, size_t count, float* target) {
  const __m256 scale = _mm256_set1_ps(kScale);
  size_t i = 0;
  for (; i + 8 <= count; i += 8) {
    const __m128i bytes = _mm_loadl_epi64(reinterpret_cast<const __m128i*>(source + i));
    const __m256 values = _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(bytes));
    _mm256_storeu_ps(target + i, _mm256_mul_ps(values, scale));
  }
  ScalePortable(source + i, count - i, target + i);
}

#endif

}  // namespace

void ScaleBytes(const uint8_t* source, size_t count, float* target) {
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx2") != 0) {
    return ScaleAvx2(source, count, target);
  }
#endif
  ScalePortable(source, count, target);
}

}  // namespace lockstep::data::internal
