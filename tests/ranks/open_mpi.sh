# Read by the scripts in this folder: what Open MPI needs where tests run, as root and in containers, and how they fail.
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
export OMPI_MCA_btl_vader_single_copy_mechanism=none  # containers forbid reading other processes' memory
fail() { echo "${0##*/}: $*"; exit 1; }
# checksum_in: that of a training's --json.
checksum_in() { sed -n 's/.*"checksum": *"\([^"]*\)".*/\1/p' "$@"; }
