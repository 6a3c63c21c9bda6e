#include "lockstep/cli/process_age.h"

#include <unistd.h>

#include <fstream>
#include <limits>
#include <sstream>
#include <string>

namespace lockstep::cli {

double ProcessAge() {
  std::ifstream stat_file("/proc/self/stat");
  std::ifstream uptime_file("/proc/uptime");
  std::string stat;
  double uptime = 0;
  if (!std::getline(stat_file, stat) || !(uptime_file >> uptime)) {
    return std::numeric_limits<double>::quiet_NaN();
  }
  // Behind the name in parentheses, which may itself contain spaces: field 3 and on; the start time
  // is field 22.
  std::istringstream fields(stat.substr(stat.rfind(')') + 1));
  std::string field;
  for (int i = 3; i <= 22; ++i) {
    fields >> field;
  }
  return uptime - std::stod(field) / static_cast<double>(sysconf(_SC_CLK_TCK));
}

}  // namespace lockstep::cli
