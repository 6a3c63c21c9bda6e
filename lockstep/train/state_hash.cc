#include "lockstep/train/state_hash.h"

#include <array>

#include "lockstep/base/sha256.h"

namespace lockstep::train {
namespace {

void UpdateInt(Sha256& hash, uint64_t value) {
  std::array<unsigned char, 8> bytes{};
  for (size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<unsigned char>(value >> (8 * i));
  }
  hash.Update(bytes.data(), bytes.size());
}

void UpdateText(Sha256& hash, std::string_view text) {
  UpdateInt(hash, text.size());
  hash.Update(text);
}

Status UpdateVariables(Sha256& hash, const exec::VariableStore& store,
                       std::span<const std::string> names) {
  for (const std::string& name : names) {
    LS_ASSIGN_OR_RETURN(const Tensor value, store.Read(name));
    UpdateText(hash, name);
    UpdateText(hash, DTypeName(value.dtype()));
    UpdateInt(hash, static_cast<uint64_t>(value.shape().rank()));
    for (const int64_t dim : value.shape().dims()) {
      UpdateInt(hash, static_cast<uint64_t>(dim));
    }
    hash.Update(value.data(), value.bytes());
  }
  return OkStatus();
}

}  // namespace

Result<std::string> HashVariables(const exec::VariableStore& store,
                                  std::span<const std::string> names) {
  LS_ASSIGN_OR_RETURN(Sha256 hash, Sha256::Create());
  LS_TRY(UpdateVariables(hash, store, names));
  return std::move(hash).HexDigest();
}

Result<std::string> HashState(const exec::VariableStore& store,
                              std::span<const std::string> model_variables,
                              std::span<const std::string> slot_variables, int64_t global_step) {
  LS_ASSIGN_OR_RETURN(Sha256 hash, Sha256::Create());
  LS_TRY(UpdateVariables(hash, store, model_variables));
  LS_TRY(UpdateVariables(hash, store, slot_variables));
  UpdateInt(hash, static_cast<uint64_t>(global_step));
  return std::move(hash).HexDigest();
}

}  // namespace lockstep::train
