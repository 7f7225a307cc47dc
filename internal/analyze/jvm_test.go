package analyze

import (
	"strings"
	"testing"

	"contend/internal/recording"
)

func TestJavaFunction(t *testing.T) {
	for in, want := range map[string]struct{ name, kind string }{
		"java/util/concurrent/locks/ReentrantLock.lock": {"java.util.concurrent.locks.ReentrantLock.lock", KindStd},
		"Lorg/apache/x/Queue;::offer":                   {"org.apache.x.Queue.offer", KindApp},
		"org.apache.x.Queue::offer":                     {"org.apache.x.Queue.offer", KindApp},
		"org/apache/x/Queue.offer(Ljava/lang/Object;)Z": {"org.apache.x.Queue.offer", KindApp},
		"Main.run":         {"Main.run", KindApp},
		"com.x.A$B.<init>": {"com.x.A$B.<init>", KindApp},
		"com/x/App$$Lambda$14/0x0000000800c03000.run":          {"com.x.App$$Lambda.run", KindApp},
		"com/x/App$$Lambda+0x00007f8177090218/543846639.run":   {"com.x.App$$Lambda.run", KindApp},
		"com/x/App$$Lambda.add":                                {"com.x.App$$Lambda.add", KindApp},
		"java.util.concurrent.locks.ReentrantLock$NonfairSync": {"java.util.concurrent.locks.ReentrantLock$NonfairSync", KindStd},
		"com.x.Lock":                          {"com.x.Lock", KindStd}, // a class: the lock of an event
		"ObjectMonitor::enter(JavaThread*)":   {"ObjectMonitor::enter(JavaThread*)", KindNative},
		"std::thread::join":                   {"std::thread::join", KindNative},
		"pthread_cond_timedwait@@GLIBC_2.3.2": {"pthread_cond_timedwait@@GLIBC_2.3.2", KindNative},
		"finish_task_switch.isra.0":           {"finish_task_switch.isra.0", KindNative},
		"libjvm.so":                           {"libjvm.so", KindNative},
		"[unknown]":                           {"[unknown]", KindMark},
		"start_thread":                        {"start_thread", KindNative},
		"sun/nio/ch/EPoll.wait":               {"sun.nio.ch.EPoll.wait", KindStd},
		"jdk/internal/reflect/GeneratedMethodAccessor12.invoke": {"jdk.internal.reflect.GeneratedMethodAccessor12.invoke", KindStd},
	} {
		if got := javaFunction(in); got != want.name {
			t.Errorf("%s reads %s, want %s", in, got, want.name)
		} else if kind := javaKind(got); kind != want.kind {
			t.Errorf("%s is %s, want %s", got, kind, want.kind)
		}
	}
	if a, b := javaKey("x.GeneratedMethodAccessor12.invoke"), javaKey("x.GeneratedMethodAccessor7.invoke"); a != b {
		t.Errorf("%s and %s", a, b)
	}
}

// TestJVMClasses: what a stack below the application, leaf first, waits for.
func TestJVMClasses(t *testing.T) {
	const park = "Unsafe_Park jdk.internal.misc.Unsafe.park java.util.concurrent.locks.LockSupport.park "
	const aqs = "java.util.concurrent.locks.AbstractQueuedSynchronizer."
	for frames, want := range map[string][2]string{
		park + aqs + "acquire java.util.concurrent.locks.ReentrantLock.lock":                             {recording.ClassLock, kindMutex},
		park + aqs + "acquireShared java.util.concurrent.locks.ReentrantReadWriteLock$ReadLock.lock":     {recording.ClassLock, kindRWMutex},
		park + "java.util.concurrent.locks.StampedLock.acquireWrite":                                     {recording.ClassLock, kindRWMutex},
		"futex_wait ObjectMonitor::EnterI ObjectMonitor::enter":                                          {recording.ClassLock, kindMonitor},
		"futex_wait ObjectMonitor::wait java.lang.Object.wait0 java.lang.Object.wait":                    {recording.ClassCond, kindUnknown},
		park + aqs + "acquireSharedInterruptibly java.util.concurrent.CountDownLatch.await":              {recording.ClassJoin, kindWaitGroup},
		park + aqs + "acquireSharedInterruptibly java.util.concurrent.Semaphore.acquire":                 {recording.ClassSemaphore, kindUnknown},
		park + aqs[:len(aqs)-1] + "$ConditionObject.await java.util.concurrent.LinkedBlockingQueue.take": {recording.ClassCond, kindUnknown},
		"nanosleep java.lang.Thread.sleep0 java.lang.Thread.sleep":                                       {recording.ClassSleep, kindUnknown},
		"epoll_wait sun.nio.ch.EPoll.wait sun.nio.ch.SelectorImpl.select":                                {recording.ClassIO, kindUnknown},
		"java.util.concurrent.locks.ReentrantLock$NonfairSync":                                           {recording.ClassLock, kindMutex},
		"java.lang.Object": {recording.ClassLock, kindMonitor},
		park:               {recording.ClassUnknown, kindUnknown},
	} {
		table := newTable(newRuleSet(nil), nil)
		table.jvm = true
		var fs []*frame
		for _, name := range append(strings.Fields(frames), "com.x.App.run") {
			fs = append(fs, table.frame(table.function(name, false), "", 0))
		}
		s, _ := table.stack(fs, nil)
		if s.class != want[0] || s.kind != want[1] {
			t.Errorf("%s: %s %s, want %s", frames, s.class, s.kind, want)
		}
	}
}
