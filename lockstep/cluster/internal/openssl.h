// What the functions that use OpenSSL share: its objects with owners, PEM texts, and its errors.
#pragma once

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/x509.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "lockstep/base/result.h"

namespace lockstep::cluster::internal {

template <auto Free>
struct OpenSslDeleter {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};

using Key = std::unique_ptr<EVP_PKEY, OpenSslDeleter<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, OpenSslDeleter<X509_free>>;
using Bio = std::unique_ptr<BIO, OpenSslDeleter<BIO_free_all>>;

// INTERNAL with what OpenSSL says about its last error.
Status OpenSslError(std::string_view action);

// All that was written to a BIO in memory.
std::string TextOf(BIO* bio);

// "2036-11-28 14:00:00".
std::string TimeText(const ASN1_TIME* time);

// The first of a PEM text, and all of one. INVALID_ARGUMENT if there is none.
Result<Certificate> ParseCertificate(const std::string& pem);
Result<std::vector<Certificate>> ParseCertificates(const std::string& pem);

// INVALID_ARGUMENT, also for a key with a password: nobody is asked for one.
Result<Key> ParseKey(const std::string& pem);

}  // namespace lockstep::cluster::internal
