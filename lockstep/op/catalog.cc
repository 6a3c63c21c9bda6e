#include "lockstep/op/catalog.h"

namespace lockstep::op {

OpDef SquareDef();

const OpCatalog& Catalog() {
  static const OpCatalog catalog({
      SquareDef(),
  });
  return catalog;
}

}  // namespace lockstep::op
