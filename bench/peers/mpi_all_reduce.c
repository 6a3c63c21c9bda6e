/* Median time of MPI_Allreduce of float32 sums in place: arguments bytes:warm-up:repeats, output one
 * JSON object. Run by mpi_all_reduce.py. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static int Compare(const void* a, const void* b) {
  const double x = *(const double*)a;
  const double y = *(const double*)b;
  return (x > y) - (x < y);
}

int main(int argc, char** argv) {
  int rank = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0) {
    printf("{\"open mpi\": {");
  }
  for (int i = 1; i < argc; ++i) {
    long bytes = 0;
    long warm_up = 0;
    long repeats = 0;
    if (sscanf(argv[i], "%ld:%ld:%ld", &bytes, &warm_up, &repeats) != 3 || repeats < 1) {
      fprintf(stderr, "not bytes:warm-up:repeats: %s\n", argv[i]);
      MPI_Abort(MPI_COMM_WORLD, 1);
    }
    float* value = calloc((size_t)bytes / sizeof(float) + 1, sizeof(float));
    double* times = calloc((size_t)repeats, sizeof(double));
    for (long j = 0; j < bytes / (long)sizeof(float); ++j) {
      value[j] = 0.0F;
    }
    for (long j = -warm_up; j < repeats; ++j) {
      const double start = MPI_Wtime();
      MPI_Allreduce(MPI_IN_PLACE, value, (int)(bytes / (long)sizeof(float)), MPI_FLOAT, MPI_SUM,
                    MPI_COMM_WORLD);
      if (j >= 0) {
        times[j] = MPI_Wtime() - start;
      }
    }
    qsort(times, (size_t)repeats, sizeof(double), Compare);
    if (rank == 0) {
      printf("%s\"%ld\": %.9f", i == 1 ? "" : ", ", bytes, times[repeats / 2]);
    }
    free(times);
    free(value);
  }
  if (rank == 0) {
    printf("}}\n");
  }
  MPI_Finalize();
  return 0;
}
