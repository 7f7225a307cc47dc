package analyze

import (
	"regexp"
	"strings"

	"github.com/google/pprof/profile"

	"contend/internal/recording"
)

// Stacks of a JVM: how its frames are named, which are the application's, and
// what its waits are. Names are compared with dots, as Java spells them.

// kindMonitor is the lock of a synchronized block.
const kindMonitor = "monitor"

// IsJVM tells a profile of a JVM by the classes that every Java stack meets.
func IsJVM(p *profile.Profile) bool {
	for _, f := range p.Function {
		for _, prefix := range []string{"java/lang/", "java.lang.", "java/util/", "java.util.", "Ljava/", "jdk/internal/", "jdk.internal.", "ObjectMonitor::", "JavaThread::"} {
			if strings.HasPrefix(f.Name, prefix) {
				return true
			}
		}
	}
	return false
}

// InKernel tells stacks of threads by the kernel's functions at their leaves.
func InKernel(p *profile.Profile) bool {
	for _, s := range p.Sample {
		if len(s.Location) == 0 || len(s.Location[0].Line) == 0 || s.Location[0].Line[0].Function == nil {
			continue
		}
		f := s.Location[0].Line[0].Function
		switch f.Name {
		case "schedule", "__schedule", "finish_task_switch", "finish_task_switch.isra.0", "schedule_timeout", "do_nanosleep":
			return true
		}
		if f.Filename == kernelFile {
			return true
		}
	}
	return false
}

var (
	// javaName is a method with its class, or a class alone.
	javaName = regexp.MustCompile(`^[\pL_$][\pL\pN_$]*(?:\.[\pL_$<][\pL\pN_$<>+-]*)+$`)
	// lambdas are numbered, and often placed, anew in every process.
	lambdas = regexp.MustCompile(`\$\$Lambda[$.]?[0-9]*(?:[./+](?:0x)?[0-9a-fA-F]+)*\.`)
	// javaGenerated matches what the JVM or its compilers number.
	javaGenerated = regexp.MustCompile(`(LambdaForm\$(?:D?MH|BMH))[$.](?:0x)?[0-9a-fA-F]+|(GeneratedMethodAccessor|GeneratedConstructorAccessor|\$Proxy|lambda\$\w+\$)[0-9]+`)
)

// javaFunction spells a frame of a JVM as Java does, "java.util.Map.get":
// async-profiler has slashes between packages, perf-map-agent "Ljava/util/Map;::get".
// What is no Java stays as it is.
func javaFunction(name string) string {
	s := name
	if i := strings.IndexByte(s, '('); i > 0 { // the signature
		s = s[:i]
	}
	class, method, joined := strings.Cut(s, "::")
	switch {
	case joined && strings.HasPrefix(class, "L") && strings.HasSuffix(class, ";"):
		s = class[1:len(class)-1] + "." + method
	case joined && strings.ContainsAny(class, "./") && !strings.Contains(method, "::"):
		s = class + "." + method
	case joined:
		return name // C++
	}
	s = lambdas.ReplaceAllString(s, "$$$$Lambda.")
	s = strings.ReplaceAll(s, "/", ".")
	if !javaName.MatchString(s) || nativeSuffix.MatchString(s) {
		return name
	}
	return s
}

// nativeSuffix are the suffixes of a C compiler's clones, and of libraries.
var nativeSuffix = regexp.MustCompile(`\.(isra|part|constprop|cold|llvm|so)(\.|$)`)

// javaKey is the name by which a function of one build is found in another.
func javaKey(name string) string { return javaGenerated.ReplaceAllString(name, "$1$2") }

// platform are the packages of the Java platform.
var platform = []string{"java.", "javax.", "jdk.", "sun.", "com.sun."}

// javaKind tells application code from the platform's and from the JVM's own.
func javaKind(name string) string {
	if name == "" || name[0] == '[' {
		return KindMark
	}
	if !javaName.MatchString(name) || nativeSuffix.MatchString(name) {
		return KindNative
	}
	for _, p := range platform {
		if strings.HasPrefix(name, p) {
			return KindStd
		}
	}
	if isClass(name) { // of a lock: async-profiler puts it at the leaf
		return KindStd
	}
	return KindApp
}

// isClass tells a class from a method by the case of its last part.
func isClass(name string) bool {
	last := name[strings.LastIndexByte(name, '.')+1:]
	return last != "" && last[0] >= 'A' && last[0] <= 'Z'
}

// javaBase is a method with its class, without the package.
func javaBase(name string) string {
	i := strings.LastIndexByte(name, '.')
	if i < 0 {
		return name
	}
	return name[strings.LastIndexByte(name[:i], '.')+1:]
}

// jvmWaits say what a frame below the application means, from the leaf up; the
// first prefix that fits. A semaphore gives way to what is told further up, since
// all of java.util.concurrent parks by AbstractQueuedSynchronizer.
var jvmWaits = []struct{ prefix, class, kind string }{
	{"ObjectMonitor::enter", recording.ClassLock, kindMonitor},
	{"ObjectMonitor::EnterI", recording.ClassLock, kindMonitor},
	{"ObjectSynchronizer::enter", recording.ClassLock, kindMonitor},
	{"ObjectSynchronizer::fast_enter", recording.ClassLock, kindMonitor},
	{"ObjectMonitor::wait", recording.ClassCond, ""},
	{"java.lang.Object.wait", recording.ClassCond, ""},
	{"java.util.concurrent.locks.AbstractQueuedSynchronizer$ConditionObject.await", recording.ClassCond, ""},
	{"java.util.concurrent.locks.AbstractQueuedLongSynchronizer$ConditionObject.await", recording.ClassCond, ""},
	{"java.util.concurrent.locks.ReentrantReadWriteLock", recording.ClassLock, kindRWMutex},
	{"java.util.concurrent.locks.StampedLock", recording.ClassLock, kindRWMutex},
	{"java.util.concurrent.locks.ReentrantLock", recording.ClassLock, kindMutex},
	{"java.util.concurrent.locks.Abstract", recording.ClassSemaphore, ""},
	{"java.util.concurrent.CountDownLatch.", recording.ClassJoin, kindWaitGroup},
	{"java.util.concurrent.Phaser.", recording.ClassJoin, kindWaitGroup},
	{"java.util.concurrent.CyclicBarrier.", recording.ClassJoin, kindWaitGroup},
	{"java.lang.Thread.join", recording.ClassJoin, kindWaitGroup},
	{"java.util.concurrent.Semaphore", recording.ClassSemaphore, ""},
	{"java.util.concurrent.CompletableFuture", recording.ClassCond, ""},
	{"java.util.concurrent.FutureTask", recording.ClassCond, ""},
	{"java.util.concurrent.Exchanger", recording.ClassCond, ""},
	{"java.util.concurrent.SynchronousQueue", recording.ClassCond, ""},
	{"java.util.concurrent.LinkedTransferQueue", recording.ClassCond, ""},
	{"java.util.concurrent.ForkJoinPool", recording.ClassCond, ""},
	{"java.lang.Thread.sleep", recording.ClassSleep, ""},
	{"java.util.concurrent.locks.LockSupport.parkNanos", recording.ClassUnknown, ""},
	{"sun.nio.ch.EPoll", recording.ClassIO, ""},
	{"sun.nio.ch.Net.poll", recording.ClassIO, ""},
	{"sun.nio.ch.SelectorImpl.", recording.ClassIO, ""},
	{"sun.nio.ch.FileDispatcherImpl.force", recording.ClassSyscall, ""},
	{"sun.nio.ch.", recording.ClassSyscall, ""},
	{"java.net.SocketInputStream.", recording.ClassIO, ""},
	{"java.net.PlainSocketImpl.", recording.ClassIO, ""},
	{"java.io.", recording.ClassSyscall, ""},
	{"jdk.internal.vm.", recording.ClassRuntime, ""},
	{"SafepointMechanism::", recording.ClassRuntime, ""},
	{"SafepointSynchronize::", recording.ClassRuntime, ""},
	{"VMThread::", recording.ClassRuntime, ""},
}

// jvmClass tells a wait's class and the kind of lock of a JVM's stack.
func jvmClass(s *stack) (cls, kind string) {
	cls, kind = recording.ClassUnknown, kindUnknown
	frames := s.below()
	if len(frames) > 0 && frames[0].fn.kind == KindStd && isClass(frames[0].fn.name) {
		cls, kind = recording.ClassLock, kindMonitor // async-profiler's lock event: the lock's class
	}
	for _, f := range frames {
		for _, w := range jvmWaits {
			if !strings.HasPrefix(f.fn.key, w.prefix) {
				continue
			}
			if cls == recording.ClassUnknown || cls == recording.ClassSemaphore || kind == kindMonitor && w.kind != "" {
				cls, kind = w.class, kindUnknown
				if w.kind != "" {
					kind = w.kind
				}
			}
			break
		}
	}
	return cls, kind
}
