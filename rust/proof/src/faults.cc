// A disk that loses power and fails on command.
//
// RocksDB's FaultInjectionTestFS simulates the loss: it holds unsynced bytes in memory and records unsynced directory
// entries. Its injected errors are per thread and never fail a sync of a file, but flushes and compactions run on RocksDB's own
// threads.
// So a layer above it counts operations: the n-th read, write or sync of any thread fails, or the power goes off before the
// n-th write or sync.

#include <algorithm>
#include <atomic>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "env/composite_env_wrapper.h"
#include "rocksdb/env.h"
#include "rocksdb/file_system.h"
#include "rocksdb/system_clock.h"
#include "util/random.h"
#include "utilities/fault_injection_fs.h"

using namespace ROCKSDB_NAMESPACE;

namespace {

enum Operation { kRead = 0, kWrite = 1, kSync = 2, kOperations = 3 };

// The planned faults, shared by all files. A count is negative if nothing is planned.
struct Plan {
  std::atomic<int64_t> fail_after[kOperations] = {-1, -1, -1};
  std::atomic<bool> keeps_failing{false};
  std::atomic<int64_t> power_after{-1};
  std::atomic<uint64_t> seen[kOperations] = {0, 0, 0};
  std::atomic<uint64_t> failed{0};
  FaultInjectionTestFS* disk = nullptr;

  void PowerOff() { disk->SetFilesystemActive(false, IOStatus::IOError("the power is gone")); }

  IOStatus Check(Operation operation) {
    seen[operation]++;
    if (operation != kRead && power_after.load() >= 0 && power_after.fetch_sub(1) == 0) {
      PowerOff();
    }
    if (fail_after[operation].load() >= 0) {
      const int64_t left = fail_after[operation].fetch_sub(1);
      if (left == 0 && keeps_failing) {
        fail_after[operation] = 0;
      }
      if (left == 0) {
        failed++;
        return IOStatus::IOError("an injected error");
      }
    }
    return IOStatus::OK();
  }
};

#define CHECKED(operation, call)                  \
  do {                                            \
    IOStatus planned = plan_->Check(operation);   \
    if (!planned.ok()) return planned;            \
    return call;                                  \
  } while (0)

class Writable : public FSWritableFileOwnerWrapper {
 public:
  Writable(std::unique_ptr<FSWritableFile>&& file, Plan* plan)
      : FSWritableFileOwnerWrapper(std::move(file)), plan_(plan) {}
  IOStatus Append(const Slice& data, const IOOptions& options, IODebugContext* dbg) override {
    CHECKED(kWrite, FSWritableFileOwnerWrapper::Append(data, options, dbg));
  }
  IOStatus Append(const Slice& data, const IOOptions& options, const DataVerificationInfo& info, IODebugContext* dbg) override {
    CHECKED(kWrite, FSWritableFileOwnerWrapper::Append(data, options, info, dbg));
  }
  IOStatus Truncate(uint64_t size, const IOOptions& options, IODebugContext* dbg) override {
    CHECKED(kWrite, FSWritableFileOwnerWrapper::Truncate(size, options, dbg));
  }
  IOStatus Sync(const IOOptions& options, IODebugContext* dbg) override {
    CHECKED(kSync, FSWritableFileOwnerWrapper::Sync(options, dbg));
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* dbg) override {
    CHECKED(kSync, FSWritableFileOwnerWrapper::Fsync(options, dbg));
  }
  IOStatus RangeSync(uint64_t offset, uint64_t bytes, const IOOptions& options, IODebugContext* dbg) override {
    CHECKED(kSync, FSWritableFileOwnerWrapper::RangeSync(offset, bytes, options, dbg));
  }

 private:
  Plan* plan_;
};

class RandomAccess : public FSRandomAccessFileOwnerWrapper {
 public:
  RandomAccess(std::unique_ptr<FSRandomAccessFile>&& file, Plan* plan)
      : FSRandomAccessFileOwnerWrapper(std::move(file)), plan_(plan) {}
  IOStatus Read(uint64_t offset, size_t n, const IOOptions& options, Slice* result, char* scratch,
                IODebugContext* dbg) const override {
    CHECKED(kRead, FSRandomAccessFileOwnerWrapper::Read(offset, n, options, result, scratch, dbg));
  }
  IOStatus MultiRead(FSReadRequest* requests, size_t n, const IOOptions& options, IODebugContext* dbg) override {
    CHECKED(kRead, FSRandomAccessFileOwnerWrapper::MultiRead(requests, n, options, dbg));
  }

 private:
  Plan* plan_;
};

class Sequential : public FSSequentialFileOwnerWrapper {
 public:
  Sequential(std::unique_ptr<FSSequentialFile>&& file, Plan* plan)
      : FSSequentialFileOwnerWrapper(std::move(file)), plan_(plan) {}
  IOStatus Read(size_t n, const IOOptions& options, Slice* result, char* scratch, IODebugContext* dbg) override {
    CHECKED(kRead, FSSequentialFileOwnerWrapper::Read(n, options, result, scratch, dbg));
  }

 private:
  Plan* plan_;
};

class Directory : public FSDirectoryWrapper {
 public:
  Directory(std::unique_ptr<FSDirectory>&& directory, Plan* plan) : FSDirectoryWrapper(std::move(directory)), plan_(plan) {}
  IOStatus Fsync(const IOOptions& options, IODebugContext* dbg) override {
    CHECKED(kSync, FSDirectoryWrapper::Fsync(options, dbg));
  }
  IOStatus FsyncWithDirOptions(const IOOptions& options, IODebugContext* dbg, const DirFsyncOptions& how) override {
    CHECKED(kSync, FSDirectoryWrapper::FsyncWithDirOptions(options, dbg, how));
  }

 private:
  Plan* plan_;
};

class Disk : public FileSystemWrapper {
 public:
  explicit Disk(const std::shared_ptr<FileSystem>& target) : FileSystemWrapper(target) {}
  const char* Name() const override { return "holdfast.Disk"; }
  Plan plan;

  // Names of the files that were made here. The layer below must forget those that were later deleted without RocksDB.
  std::set<std::string> TakeNames() {
    std::lock_guard<std::mutex> guard(mutex_);
    return std::exchange(names_, {});
  }

  template <class Wrapped, class File>
  static IOStatus Wrap(IOStatus status, std::unique_ptr<File>* file, Plan* plan) {
    if (status.ok()) file->reset(new Wrapped(std::move(*file), plan));
    return status;
  }
  IOStatus NewWritableFile(const std::string& name, const FileOptions& options, std::unique_ptr<FSWritableFile>* file,
                           IODebugContext* dbg) override {
    Plan* plan_ = &plan;
    Note(name);
    CHECKED(kWrite, Wrap<Writable>(FileSystemWrapper::NewWritableFile(name, options, file, dbg), file, plan_));
  }
  IOStatus ReopenWritableFile(const std::string& name, const FileOptions& options, std::unique_ptr<FSWritableFile>* file,
                              IODebugContext* dbg) override {
    Plan* plan_ = &plan;
    CHECKED(kWrite, Wrap<Writable>(FileSystemWrapper::ReopenWritableFile(name, options, file, dbg), file, plan_));
  }
  IOStatus NewRandomAccessFile(const std::string& name, const FileOptions& options, std::unique_ptr<FSRandomAccessFile>* file,
                               IODebugContext* dbg) override {
    Plan* plan_ = &plan;
    CHECKED(kRead, Wrap<RandomAccess>(FileSystemWrapper::NewRandomAccessFile(name, options, file, dbg), file, plan_));
  }
  IOStatus NewSequentialFile(const std::string& name, const FileOptions& options, std::unique_ptr<FSSequentialFile>* file,
                             IODebugContext* dbg) override {
    Plan* plan_ = &plan;
    CHECKED(kRead, Wrap<Sequential>(FileSystemWrapper::NewSequentialFile(name, options, file, dbg), file, plan_));
  }
  IOStatus NewDirectory(const std::string& name, const IOOptions& options, std::unique_ptr<FSDirectory>* directory,
                        IODebugContext* dbg) override {
    Plan* plan_ = &plan;
    return Wrap<Directory>(FileSystemWrapper::NewDirectory(name, options, directory, dbg), directory, plan_);
  }
  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options, IODebugContext* dbg) override {
    Plan* plan_ = &plan;
    Note(to);
    CHECKED(kWrite, FileSystemWrapper::RenameFile(from, to, options, dbg));
  }
  IOStatus LinkFile(const std::string& from, const std::string& to, const IOOptions& options, IODebugContext* dbg) override {
    Plan* plan_ = &plan;
    Note(to);
    CHECKED(kWrite, FileSystemWrapper::LinkFile(from, to, options, dbg));
  }
  IOStatus DeleteFile(const std::string& name, const IOOptions& options, IODebugContext* dbg) override {
    Plan* plan_ = &plan;
    CHECKED(kWrite, FileSystemWrapper::DeleteFile(name, options, dbg));
  }

 private:
  void Note(const std::string& name) {
    std::lock_guard<std::mutex> guard(mutex_);
    names_.insert(name);
  }

  std::mutex mutex_;
  std::set<std::string> names_;
};

// After a failed flush or compaction RocksDB sleeps for a second before it checks whether it must close. With this clock it
// sleeps for a millisecond at most.
class Impatient : public SystemClockWrapper {
 public:
  using SystemClockWrapper::SystemClockWrapper;
  const char* Name() const override { return "holdfast.Impatient"; }
  void SleepForMicroseconds(int micros) override { SystemClockWrapper::SleepForMicroseconds(std::min(micros, 1000)); }
};

// Writes back the unsynced bytes of a file that reached the disk without a sync.
IOStatus Keep(FileSystem* real, FaultInjectionTestFS* disk, const std::string& name, int kept, Random* random) {
  uint64_t size = 0, stored = 0;
  IODebugContext* none = nullptr;
  if (!disk->GetFileSize(name, IOOptions(), &size, none).ok() || !real->GetFileSize(name, IOOptions(), &stored, none).ok()) {
    return IOStatus::OK();
  }
  std::vector<char> scratch(size + 1);
  Slice unsynced;
  int64_t synced = -1;
  disk->ReadUnsynced(name, 0, size, &unsynced, scratch.data(), &synced);
  if (synced < 0 || unsynced.empty() || static_cast<uint64_t>(synced) != stored) return IOStatus::OK();
  std::string tail(unsynced.data(), kept == 2 ? unsynced.size() : random->Uniform(static_cast<int>(unsynced.size()) + 1));
  std::unique_ptr<FSWritableFile> file;
  IOStatus status = real->ReopenWritableFile(name, FileOptions(), &file, none);
  if (status.ok()) status = file->Append(tail, IOOptions(), none);
  if (status.ok()) status = file->Close(IOOptions(), none);
  return status;
}

}  // namespace

// The struct of RocksDB's C interface (db/c.cc), because the Rust crate takes an environment in this form.
struct rocksdb_env_t {
  Env* rep;
  bool is_default;
};

static rocksdb_env_t* Over(const std::shared_ptr<FileSystem>& disk) {
  auto clock = std::make_shared<Impatient>(SystemClock::Default());
  return new rocksdb_env_t{new CompositeEnvWrapper(Env::Default(), disk, clock), false};
}

struct holdfast_faults {
  std::shared_ptr<FaultInjectionTestFS> lossy;
  std::shared_ptr<Disk> disk;
};

extern "C" {

holdfast_faults* holdfast_faults_new() {
  auto* faults = new holdfast_faults;
  faults->lossy = std::make_shared<FaultInjectionTestFS>(FileSystem::Default());
  faults->lossy->SetInjectUnsyncedDataLoss(true);
  faults->disk = std::make_shared<Disk>(faults->lossy);
  faults->disk->plan.disk = faults->lossy.get();
  return faults;
}

void holdfast_faults_free(holdfast_faults* faults) { delete faults; }

rocksdb_env_t* holdfast_faults_env(holdfast_faults* faults) { return Over(faults->disk); }

// The real disk.
rocksdb_env_t* holdfast_impatient_env() { return Over(FileSystem::Default()); }

// Applies to the simulated disk a directory's fsync that the engine makes without RocksDB.
int holdfast_faults_sync_directory(holdfast_faults* faults, const char* directory) {
  std::unique_ptr<FSDirectory> opened;
  IOStatus status = faults->disk->NewDirectory(directory, IOOptions(), &opened, nullptr);
  if (status.ok()) status = opened->Fsync(IOOptions(), nullptr);
  return status.ok() ? 0 : -1;
}

// Applies to the simulated disk a file's fsync that the engine makes without RocksDB.
int holdfast_faults_sync_file(holdfast_faults* faults) {
  return faults->disk->plan.Check(kSync).ok() && faults->lossy->IsFilesystemActive() ? 0 : -1;
}

void holdfast_faults_power_off(holdfast_faults* faults, int64_t after) {
  if (after < 0) {
    faults->disk->plan.PowerOff();
  } else {
    faults->disk->plan.power_after = after;
  }
}

int holdfast_faults_powered(holdfast_faults* faults) { return faults->lossy->IsFilesystemActive(); }

void holdfast_faults_fail(holdfast_faults* faults, int operation, int64_t after, int keeps_failing) {
  faults->disk->plan.keeps_failing = keeps_failing != 0;
  faults->disk->plan.fail_after[operation] = after;
}

uint64_t holdfast_faults_seen(holdfast_faults* faults, int operation) { return faults->disk->plan.seen[operation]; }

uint64_t holdfast_faults_failed(holdfast_faults* faults) { return faults->disk->plan.failed; }

// Simulates a loss of power in `directory`, whose database must be closed, and turns the power on again.
// kept: which unsynced bytes remain; 0 none, 1 a random part, 2 all.
// entries: whether directory entries made since the directory's last sync are lost.
int holdfast_faults_lose(holdfast_faults* faults, const char* directory, int kept, int entries, uint32_t seed) {
  Random random(seed);
  FaultInjectionTestFS* lossy = faults->lossy.get();
  Plan& plan = faults->disk->plan;
  plan.power_after = -1;
  for (auto& after : plan.fail_after) after = -1;
  lossy->SetFilesystemActive(true);
  FileSystem* real = lossy->target();
  for (const std::string& name : faults->disk->TakeNames()) {
    if (real->FileExists(name, IOOptions(), nullptr).IsNotFound()) lossy->UntrackFile(name);
  }
  IOStatus status;
  if (kept != 0) {
    std::vector<std::string> names;
    status = real->GetChildren(directory, IOOptions(), &names, nullptr);
    for (size_t i = 0; status.ok() && i < names.size(); i++) {
      status = Keep(real, lossy, std::string(directory) + "/" + names[i], kept, &random);
    }
  }
  if (status.ok()) status = lossy->DropUnsyncedFileData();
  if (status.ok() && entries) status = lossy->DeleteFilesCreatedAfterLastDirSync(IOOptions(), nullptr);
  lossy->ResetState();
  return status.ok() ? 0 : -1;
}
}
