// Folders of IDX files laid out as MNIST is: train-images-idx3-ubyte, train-labels-idx1-ubyte,
// t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte; each may be compressed (then usually named .gz),
// and may be written with '.' in place of the '-' before "idx". Where a file is there by more than
// one of its names, the first of -idx, -idx.gz, .idx, .idx.gz is read, with a warning. Errors name
// the file.
#pragma once

#include <string>
#include <vector>

#include "lockstep/data/dataset.h"

namespace lockstep::data {

// Images as uint8 [N, height, width, 1], classes 0 to num_classes - 1. A num_classes of zero means
// "as many as the labels of both splits use". Both splits must have samples of the same size.
Result<Dataset> LoadIdxFolder(const std::string& folder, int64_t num_classes,
                              const StopCheck& should_stop = {});

// The same for MNIST and sets made in its image: 28 x 28 pixels, ten classes.
Result<Dataset> LoadMnist(const std::string& folder, const StopCheck& should_stop = {});

// What LoadIdxFolder(folder, 0) returns, without any sample: name, sample_shape and num_classes.
// Reads no more of the images than the beginning.
Result<Dataset> DescribeIdxFolder(const std::string& folder);

// What LoadMnist returns, without any sample. Reads nothing.
Dataset DescribeMnist(const std::string& folder);

// Paths of the files that the functions above look for in `folder`, whether they are there or not.
std::vector<std::string> IdxFolderFiles(const std::string& folder);

}  // namespace lockstep::data
