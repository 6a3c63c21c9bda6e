// Certificates on disk: NAME.crt, which everybody may read, and NAME.key, which is for its owner
// alone from the moment it exists. Nothing is ever overwritten: a second authority in place of the
// first would lock out every task that trusts the first.
#pragma once

#include <string>

#include "lockstep/base/result.h"
#include "lockstep/cluster/security/certificates.h"

namespace lockstep::cluster {

// FOLDER/NAME.crt and FOLDER/NAME.key; makes the folder if it is missing. ALREADY_EXISTS if one of
// the files is there; after an error neither is left behind.
Status WriteCertificate(const std::string& folder, const std::string& name,
                        const CertificateAndKey& files);

// What WriteCertificate wrote.
Result<CertificateAndKey> ReadCertificate(const std::string& folder, const std::string& name);

}  // namespace lockstep::cluster
