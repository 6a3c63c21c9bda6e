#include "lockstep/cli/usage.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>
#include <vector>

#include "lockstep/base/quote.h"
#include "lockstep/base/suggest.h"

namespace lockstep::cli {
namespace {

// Names of the flags that a command has, as they are written.
std::vector<std::string> FlagsOf(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) {
      names.push_back("--" + name);
    }
    for (const std::string& name : option->get_snames()) {
      names.push_back("-" + name);
    }
  }
  return names;
}

// "lockstep bench step --help".
std::string HelpOf(const CLI::App& command) {
  std::string words = "--help";
  for (const CLI::App* at = &command; at->get_parent() != nullptr; at = at->get_parent()) {
    words = fmt::format("{} {}", at->get_name(), words);
  }
  return "lockstep " + words;
}

// What is wrong with an argument that nothing expects.
Status Unexpected(const CLI::App& command, const std::string& argument) {
  if (argument.empty() || argument[0] != '-' || argument == "-" || argument == "--") {
    return InvalidArgument(fmt::format("unexpected argument {}", Quoted(argument)));
  }
  const std::string flag = argument.substr(0, argument.find('='));
  const std::vector<std::string> names = FlagsOf(command);
  const std::vector<std::string_view> known(names.begin(), names.end());
  const std::string suggestion = DidYouMean(flag, known);
  return InvalidArgument(fmt::format(
      "unknown option {}{}", Quoted(flag),
      suggestion.empty() ? fmt::format(": {} lists them", HelpOf(command)) : suggestion));
}

}  // namespace

Status CheckCommand(const CLI::App& app, std::span<char* const> arguments) {
  const CLI::App* at = &app;
  for (size_t i = 0;; ++i) {
    const std::vector<const CLI::App*> commands = at->get_subcommands({});
    if (commands.empty()) {
      return OkStatus();
    }
    if (i < arguments.size() && arguments[i][0] == '-') {
      const std::vector<std::string> flags = FlagsOf(*at);
      return std::find(flags.begin(), flags.end(), arguments[i]) != flags.end()
                 ? OkStatus()
                 : Unexpected(*at, arguments[i]);
    }
    std::vector<std::string> names;
    for (const CLI::App* command : commands) {
      names.push_back(command->get_name());
    }
    if (i == arguments.size()) {
      return InvalidArgument(fmt::format("a command is missing: {}", fmt::join(names, ", ")));
    }
    const auto found = std::find(names.begin(), names.end(), arguments[i]);
    if (found == names.end()) {
      const std::vector<std::string_view> known(names.begin(), names.end());
      return InvalidArgument(fmt::format("unknown command {}{}: allowed are {}",
                                         Quoted(arguments[i]), DidYouMean(arguments[i], known),
                                         fmt::join(names, ", ")));
    }
    at = commands[static_cast<size_t>(found - names.begin())];
  }
}

Status UsageError(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* command = &app;
  while (!command->get_subcommands().empty()) {
    command = command->get_subcommands().front();
  }
  // CLI11 finds a missing argument first, where a misspelt flag is the reason or the worse mistake.
  const bool extra = dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr;
  for (const std::string& argument : command->remaining()) {
    if (argument == "--" && !extra) {
      break;  // what follows is for another program
    }
    if (extra || (argument.size() > 1 && argument[0] == '-')) {
      return Unexpected(*command, argument);
    }
  }
  return InvalidArgument(Shown(error.what()));
}

}  // namespace lockstep::cli
