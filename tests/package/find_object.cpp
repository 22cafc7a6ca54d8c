// For libgcc_s of this system under an older glibc: where the tables lie by which an exception finds its way. Systems
// with an older glibc have an older libgcc_s, which looks for them itself.
#include <dlfcn.h>
#include <link.h>

namespace {

struct Search {
  ElfW(Addr) place;
  dl_find_object* found;
};

int look(dl_phdr_info* object, size_t, void* data) {
  auto& search = *static_cast<Search*>(data);
  bool is_inside = false;
  void* tables = nullptr;
  for (int i = 0; i < object->dlpi_phnum; ++i) {
    const auto& header = object->dlpi_phdr[i];
    const ElfW(Addr) begin = object->dlpi_addr + header.p_vaddr;
    if (header.p_type == PT_LOAD && search.place >= begin && search.place < begin + header.p_memsz) is_inside = true;
    if (header.p_type == PT_GNU_EH_FRAME) tables = reinterpret_cast<void*>(begin);
  }
  if (is_inside) search.found->dlfo_eh_frame = tables;
  return is_inside && tables ? 1 : 0;
}

}  // namespace

extern "C" int _dl_find_object(void* place, dl_find_object* found) noexcept {
  Search search{reinterpret_cast<ElfW(Addr)>(place), found};
  return dl_iterate_phdr(look, &search) == 1 ? 0 : -1;
}
