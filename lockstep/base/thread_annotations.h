// Clang's thread-safety attributes under the project's names; nothing for other compilers. The
// preset `clang` turns what they find into errors.
//
//   Mutex mu_;
//   int count_ LS_GUARDED_BY(mu_);             only touched with mu_ held
//   void Grow() LS_REQUIRES(mu_);              the caller holds mu_
#pragma once

#if defined(__clang__)
#define LS_THREAD_ATTRIBUTE(x) __attribute__((x))
#else
#define LS_THREAD_ATTRIBUTE(x)
#endif

#define LS_CAPABILITY(name) LS_THREAD_ATTRIBUTE(capability(name))
#define LS_SCOPED_CAPABILITY LS_THREAD_ATTRIBUTE(scoped_lockable)
#define LS_GUARDED_BY(mu) LS_THREAD_ATTRIBUTE(guarded_by(mu))
#define LS_REQUIRES(...) LS_THREAD_ATTRIBUTE(requires_capability(__VA_ARGS__))
#define LS_ACQUIRE(...) LS_THREAD_ATTRIBUTE(acquire_capability(__VA_ARGS__))
#define LS_RELEASE(...) LS_THREAD_ATTRIBUTE(release_capability(__VA_ARGS__))
// On a function that returns a reference to the mutex.
#define LS_RETURN_CAPABILITY(mu) LS_THREAD_ATTRIBUTE(lock_returned(mu))
#define LS_EXCLUDES(...) LS_THREAD_ATTRIBUTE(locks_excluded(__VA_ARGS__))
