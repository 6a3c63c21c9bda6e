// The attributes of the optimizer ops: definitions, checks, and the way from a front-end's options.
#pragma once

#include <vector>

#include "lockstep/graph/attr.h"
#include "lockstep/op/apply.h"

namespace lockstep::op {

std::vector<AttrDef> GradientAttrDefs();
std::vector<AttrDef> MomentumAttrDefs();
std::vector<AttrDef> AdamAttrDefs();
std::vector<AttrDef> RmsPropAttrDefs();
std::vector<AttrDef> AdagradAttrDefs();

AttrMap GradientAttrs(const GradientOptions& options);
AttrMap MomentumAttrs(const MomentumOptions& options);
AttrMap AdamAttrs(const AdamOptions& options);
AttrMap RmsPropAttrs(const RmsPropOptions& options);
AttrMap AdagradAttrs(const AdagradOptions& options);

Status CheckGradientAttrs(const AttrMap& attrs);
Status CheckMomentumAttrs(const AttrMap& attrs);
Status CheckAdamAttrs(const AttrMap& attrs);
Status CheckRmsPropAttrs(const AttrMap& attrs);
Status CheckAdagradAttrs(const AttrMap& attrs);

GradientOptions GradientOf(const AttrMap& attrs);

}  // namespace lockstep::op
