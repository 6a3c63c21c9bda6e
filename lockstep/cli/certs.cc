#include "lockstep/cli/certs.h"

#include <fmt/format.h>

#include "lockstep/base/quote.h"
#include "lockstep/cluster/security/certificate_files.h"

namespace lockstep::cli {
namespace {

constexpr const char* kAuthorityName = "ca";

ExitCode CodeOfFiles(const Status& status) {
  switch (status.code()) {
    case StatusCode::kInvalidArgument:
    case StatusCode::kAlreadyExists:
    case StatusCode::kNotFound:
      return ExitCode::kUsage;
    default:
      return ExitCode::kOther;
  }
}

Outcome Write(const std::string& folder, const std::string& name,
              const cluster::CertificateAndKey& files) {
  if (const Status status = cluster::WriteCertificate(folder, name, files); !status.ok()) {
    return Fail(CodeOfFiles(status), status);
  }
  const Result<cluster::CertificateInfo> info = cluster::DescribeCertificate(files.certificate);
  if (!info.ok()) {
    return Fail(ExitCode::kOther, info.status());
  }
  fmt::print("{0}/{1}.crt  {2}, valid until {3} UTC{4}\n{0}/{1}.key  keep it secret\n",
             EscapeControls(folder), name, info->name, info->not_after,
             info->hosts.empty() ? "" : ", for " + info->hosts);
  return Done();
}

}  // namespace

Outcome MakeCertsAuthority(const CertsAuthorityFlags& flags) {
  const Result<cluster::CertificateAndKey> files =
      cluster::MakeAuthority({.name = flags.name, .days = flags.days});
  if (!files.ok()) {
    return Fail(CodeOfFiles(files.status()), files.status());
  }
  return Write(flags.folder, kAuthorityName, *files);
}

Outcome IssueCerts(const CertsIssueFlags& flags) {
  if (flags.name == kAuthorityName) {
    return Fail(ExitCode::kUsage,
                InvalidArgument("--name ca: that is the name of the authority's own files"));
  }
  cluster::CertificateOptions options = {flags.name, flags.hosts, flags.days};
  if (flags.cluster.spec || flags.cluster.cluster_file) {
    cluster::Resolution resolution;
    Outcome outcome = ResolveClusterHere(flags.cluster, resolution);
    if (!outcome.status.ok()) {
      return outcome;
    }
    for (const cluster::ClusterSpec::Task& task : resolution.cluster.tasks()) {
      options.hosts.push_back(task.address.host());
    }
  }
  if (options.hosts.empty()) {
    return Fail(ExitCode::kUsage,
                InvalidArgument("no hosts: give --host, --cluster or --spec; a certificate names "
                                "every host that it may stand for"));
  }
  const Result<cluster::CertificateAndKey> authority =
      cluster::ReadCertificate(flags.authority, kAuthorityName);
  if (!authority.ok()) {
    return Fail(CodeOfFiles(authority.status()), authority.status());
  }
  const Result<cluster::CertificateAndKey> files = cluster::IssueCertificate(*authority, options);
  if (!files.ok()) {
    return Fail(CodeOfFiles(files.status()), files.status());
  }
  return Write(flags.folder.empty() ? flags.authority : flags.folder, flags.name, *files);
}

}  // namespace lockstep::cli
