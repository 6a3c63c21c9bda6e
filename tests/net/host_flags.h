// The flags of the programs that hosts_test.py starts: "--name value" or "--name".
#pragma once

#include <cstring>
#include <map>
#include <string>

namespace lockstep {

class HostFlags {
 public:
  HostFlags(int argc, char** argv) {
    for (int i = 1; i < argc; ++i) {
      const std::string name = argv[i];
      const bool has_value = i + 1 < argc && std::strncmp(argv[i + 1], "--", 2) != 0;
      values_[name] = has_value ? argv[++i] : "";
    }
  }

  bool Has(const std::string& name) const { return values_.count(name) > 0; }

  std::string Text(const std::string& name, const std::string& otherwise = "") const {
    const auto found = values_.find(name);
    return found == values_.end() ? otherwise : found->second;
  }

  int Number(const std::string& name, int otherwise) const {
    return Has(name) ? std::stoi(Text(name)) : otherwise;
  }

 private:
  std::map<std::string, std::string> values_;
};

}  // namespace lockstep
