#include "lockstep/collective/internal/stream_copy.h"

#include <cstring>

#if defined(__x86_64__)
#include <emmintrin.h>
#endif

namespace lockstep::collective::internal {

void StreamCopy(std::byte* to, const std::byte* from, size_t bytes) {
  size_t copied = 0;
#if defined(__x86_64__)
  for (; copied + sizeof(__m128i) <= bytes; copied += sizeof(__m128i)) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(to + copied),
                     _mm_loadu_si128(reinterpret_cast<const __m128i*>(from + copied)));
  }
  // Such stores may be seen after later ones without this.
  _mm_sfence();
#endif
  if (copied < bytes) {
    std::memcpy(to + copied, from + copied, bytes - copied);
  }
}

}  // namespace lockstep::collective::internal
