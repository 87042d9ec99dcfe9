#include "model/family.h"

#include "base/error.h"

namespace paceline::model {

const Family& find_family(const std::string& name) {
  std::string known;
  for (const Family* family : {&kQwen3, &kQwen35}) {
    if (name == family->name) return *family;
    known += concat(known.empty() ? "" : ", ", family->name);
  }
  throw ConfigError(concat("family = \"", name, "\" cannot be served: it must be one of ", known));
}

}  // namespace paceline::model
