// `rfsize._core`: what Python sees of the compiled loops.
#include "bindings.hpp"
#include "primitives.hpp"

NB_MODULE(_core, m) {
    m.doc() = "The loops over rows and trees, compiled.";
    m.def("processor", [] { return rfsize::primitives().level; }, "The level of processors whose loops run.");
    rfsize::primitives();  // which refuses a level that the processor lacks
    rfsize::bind_forest(m);
    rfsize::bind_stops(m);
    rfsize::bind_sums(m);
}
