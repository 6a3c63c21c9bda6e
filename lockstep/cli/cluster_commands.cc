#include "lockstep/cli/cluster_commands.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "lockstep/cli/certs.h"
#include "lockstep/cli/cluster.h"
#include "lockstep/cli/launch.h"
#include "lockstep/cli/number_range.h"
#include "lockstep/cli/server.h"
#include "lockstep/cluster/launch/supervisor.h"
#include "lockstep/cluster/security/certificates.h"

namespace lockstep::cli {
namespace {

constexpr int kMaxIndex = 65535;
constexpr int kMaxPort = 65535;
constexpr int kMaxDevices = 1024;
constexpr double kMaxSeconds = 1e6;

// For text and paths: nobody means an empty one.
CLI::Validator NotEmpty() {
  return {[](std::string& text) {
            return text.empty() ? std::string("found an empty text, expected a value")
                                : std::string();
          },
          ""};
}

// A text without a default, or whose help says what it is.
template <class Text>
CLI::Option* AddText(CLI::App* command, const std::string& flag, Text& value,
                     const std::string& type, const std::string& help) {
  return command->add_option(flag, value, help)->type_name(type)->check(NotEmpty());
}

// A number whose default is what it holds; the help says the range too.
template <class Number>
CLI::Option* AddNumber(CLI::App* command, const std::string& flag, Number& value, Number low,
                       Number high, const std::string& help) {
  return command->add_option(flag, value, fmt::format("{}, {} to {} ({})", help, low, high, value))
      ->type_name(std::is_integral_v<Number> ? "N" : "SECONDS")
      ->check(InRange(low, high));
}

void AddServersOfRanks(CLI::App* command, int& ps) {
  AddNumber(command, "--ps", ps, 0, kMaxIndex,
            "So many of the last ranks of Slurm or MPI are parameter servers");
}

}  // namespace

void AddClusterFlags(CLI::App* command, ClusterSourceFlags& flags) {
  AddText(command, "--cluster", flags.cluster_file, "FILE",
          "The cluster: a JSON or TOML file (none: TF_CONFIG, Slurm, MPI, in this order)");
  AddText(command, "--spec", flags.spec, "SPEC",
          "The cluster: job|host:port;host:port,job|host:port");
  AddText(command, "--job", flags.job, "NAME",
          "This task's job, with --cluster or --spec (the only one)");
  command
      ->add_option("--task", flags.task,
                   fmt::format("This task's index in its job, 0 to {} (the only one)", kMaxIndex))
      ->type_name("N")
      ->check(InRange(0, kMaxIndex));
  AddText(command, "--hosts", flags.hosts, "LIST", "MPI's hosts: a:SLOTS,b:SLOTS");
  AddText(command, "--host-file", flags.host_file, "FILE",
          "MPI's hosts: a file with lines `host slots=N`");
  command
      ->add_option(
          "--port-base", flags.port_base,
          fmt::format("Slurm, MPI: port of the first task of each host, 1 to {} (8888)", kMaxPort))
      ->type_name("PORT")
      ->check(InRange(1, kMaxPort));
}

void AddSecurityFlags(CLI::App* command, cluster::SecurityFlags& security) {
  AddText(command, "--ca", security.ca_file, "FILE",
          "TLS: the authority, PEM (LOCKSTEP_CA_FILE); all three files or none");
  AddText(command, "--cert", security.certificate_file, "FILE",
          "TLS: this task's certificate, PEM (LOCKSTEP_CERT_FILE)");
  AddText(command, "--key", security.key_file, "FILE",
          "TLS: its private key, PEM (LOCKSTEP_KEY_FILE)");
  AddText(command, "--job-secret-file", security.secret_file, "FILE",
          "The job's secret (the value of LOCKSTEP_JOB_SECRET)");
  command->add_flag("--insecure", security.insecure, "Allow plain TCP beyond loopback");
}

namespace {

void AddCluster(CLI::App& app, Outcome& outcome) {
  auto flags = std::make_shared<ClusterSourceFlags>();
  auto json = std::make_shared<bool>(false);
  CLI::App* command = app.add_subcommand(
      "cluster", "Show the cluster as this environment describes it, and where it comes from");
  AddClusterFlags(command, *flags);
  AddServersOfRanks(command, flags->ps);
  command->add_flag("--json", *json, "One JSON object, for programs");
  command->callback([flags, json, &outcome] { outcome = ShowCluster(*flags, *json); });
}

void AddCertsAuthority(CLI::App* certs, Outcome& outcome) {
  auto flags = std::make_shared<CertsAuthorityFlags>();
  CLI::App* command = certs->add_subcommand("ca", "Make an authority: ca.crt and ca.key");
  AddText(command, "--out", flags->folder, "DIR", "Folder for the files; is made")->required();
  AddText(command, "--name", flags->name, "NAME",
          fmt::format("Name in the certificate ({})", flags->name));
  AddNumber(command, "--days", flags->days, 1, cluster::kMaxCertificateDays,
            "Valid for so many days");
  command->callback([flags, &outcome] { outcome = MakeCertsAuthority(*flags); });
}

void AddCertsIssue(CLI::App* certs, Outcome& outcome) {
  auto flags = std::make_shared<CertsIssueFlags>();
  CLI::App* command =
      certs->add_subcommand("issue", "Make a certificate for hosts: NAME.crt and NAME.key");
  AddText(command, "--ca", flags->authority, "DIR", "Folder with ca.crt and ca.key")->required();
  AddText(command, "--out", flags->folder, "DIR", "Folder for the files (the authority's)");
  AddText(command, "--name", flags->name, "NAME", "Name in the certificate and of the files")
      ->required();
  AddText(command, "--host", flags->hosts, "HOST", "A host name or address; may be repeated")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  AddText(command, "--cluster", flags->cluster.cluster_file, "FILE",
          "All hosts of this cluster file");
  AddText(command, "--spec", flags->cluster.spec, "SPEC", "All hosts of this cluster");
  AddNumber(command, "--days", flags->days, 1, cluster::kMaxCertificateDays,
            "Valid for so many days");
  command->callback([flags, &outcome] { outcome = IssueCerts(*flags); });
}

void AddCerts(CLI::App& app, Outcome& outcome) {
  CLI::App* certs = app.add_subcommand("certs", "Certificates for encrypted connections");
  certs->require_subcommand(1);
  AddCertsAuthority(certs, outcome);
  AddCertsIssue(certs, outcome);
}

void AddLaunch(CLI::App& app, Outcome& outcome) {
  auto flags = std::make_shared<LaunchFlags>();
  CLI::App* command = app.add_subcommand(
      "launch", "Start tasks on this machine, each with its own TF_CONFIG; all end together");
  command
      ->add_option("-n,--workers", flags->workers,
                   fmt::format("Workers, 1 to {}", cluster::kMaxLaunchTasks))
      ->type_name("N")
      ->check(InRange(1, cluster::kMaxLaunchTasks));
  AddNumber(command, "--ps", flags->ps, 0, cluster::kMaxLaunchTasks,
            "Parameter servers besides; at most 1024 tasks in all");
  AddNumber(command, "--settle", flags->settle_seconds, 0.0, kMaxSeconds,
            "What the others have to notice a lost task and end");
  AddNumber(command, "--grace", flags->grace_seconds, 0.0, kMaxSeconds, "From SIGTERM to SIGKILL");
  command->add_option("PROGRAM", flags->command, "The program and its arguments, behind --");
  command->callback([flags, &outcome] {
    const char* const missing = flags->workers == 0      ? "-n"
                                : flags->command.empty() ? "the program"
                                                         : nullptr;
    outcome = missing == nullptr
                  ? LaunchTasks(*flags)
                  : Fail(ExitCode::kUsage,
                         InvalidArgument(fmt::format(
                             "{} is missing: lockstep launch -n N -- PROGRAM ARGS...", missing)));
  });
}

void AddServer(CLI::App& app, Outcome& outcome) {
  auto flags = std::make_shared<ServerFlags>();
  CLI::App* command =
      app.add_subcommand("server", "Serve one task of a cluster until the job is over");
  AddClusterFlags(command, flags->cluster);
  AddServersOfRanks(command, flags->cluster.ps);
  AddNumber(command, "--devices", flags->devices, 1, kMaxDevices, "CPU devices of this task");
  AddNumber(command, "--threads-per-device", flags->threads_per_device, 1, kMaxDevices,
            "Threads of one device");
  AddNumber(command, "--timeout", flags->timeout_seconds, 0.0, kMaxSeconds,
            "To wait for the other tasks at the start and the end");
  AddNumber(command, "--heartbeat", flags->heartbeat_seconds, 0.01, kMaxSeconds,
            "A task that is lost is known within twice as many; the chief's counts");
  command
      ->add_option("--transport", flags->transport,
                   fmt::format("How tensors travel: auto (the best that both ends have), shm, ucx "
                               "or grpc ({})",
                               flags->transport))
      ->type_name("NAME")
      ->check(CLI::IsMember({"auto", "shm", "ucx", "grpc"}));
  AddText(command, "--data-ports", flags->data_ports, "FIRST-LAST",
          fmt::format("Ports of ucx links, 1 to {} (any free one); grpc links come in at the "
                      "task's own port",
                      kMaxPort));
  AddSecurityFlags(command, flags->security);
  command->callback([flags, &outcome] { outcome = Serve(*flags); });
}

}  // namespace

void AddClusterCommands(CLI::App& app, Outcome& outcome) {
  AddCerts(app, outcome);
  AddCluster(app, outcome);
  AddLaunch(app, outcome);
  AddServer(app, outcome);
}

}  // namespace lockstep::cli
