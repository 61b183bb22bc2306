/* SPDX-License-Identifier: MIT */
/*
 * lib/access/lease.c and lib/import/cache.c: two tensors of one frame, each with work until a fence
 * signals; the import is used again from the cache, and trimmed. On every way the lease fires
 * exactly once, after both fences, and the import is destroyed exactly once, unused.
 *
 *	spin -a lease.pml; gcc -O2 -DNFAIR=5 -o pan pan.c; ./pan -a -f -m200000
 *
 * Finds no error. With one of these for spin it does, because they put a mistake back:
 *
 *	-DOLD_REF_AFTER_EVENT	lease_hold_take() takes its reference after event_add()
 *	-DOLD_UNREF_UNLOCKED	cache_unref() counts to 0 without the lock
 *
 * Not modelled: fork, brief imports, what a driver still does with a destroyed import.
 */
byte lease = 2, fires;		/* struct lease: refs; calls of release() */
bool work[2], event[2];		/* its fence is pending; event_add() was called */
byte refs = 2, users = 2;	/* struct import: refs; who really uses it */
bool idle, table = true, lock;	/* in the lists of the cache; cache.lock */
byte destroyed, ended;

inline take() { atomic { !lock -> lock = true } }

inline lease_unref() {
	d_step { lease--; last = lease == 0 }
	if
	:: last -> assert(!work[0] && !work[1]); fires++; assert(fires == 1)
	:: else
	fi
}

/* use(): a user of the import, which may have been idle. Under the lock. */
inline cache_use() {
	if
	:: refs == 0 -> assert(idle); idle = false
	:: else
	fi;
	d_step { refs++; users++ }
}

inline cache_unref() {
	users--;
	atomic { if :: refs > 1 -> refs--; last = false :: else -> last = true fi }
	if
	:: last ->
#ifdef OLD_UNREF_UNLOCKED
		refs--;
		take();
		idle = true;
#else
		take();
		d_step { refs--; idle = refs == 0 }
#endif
		lock = false
	:: else
	fi
}

inline trim() {
	take();
	last = idle;
	if :: idle -> idle = false; table = false :: else fi;
	lock = false;
	if
	:: last -> assert(refs == 0 && users == 0); destroyed++; assert(destroyed == 1)
	:: else
	fi
}

/* dlbuf_release(), then the deleter: tensor_destroy() */
proctype tensor(byte i) {
	bool last;

	assert(!destroyed);
	work[i] = true;
#ifdef OLD_REF_AFTER_EVENT
	event[i] = true;
	lease++;
#else
	lease++;
	if
	:: event[i] = true
	:: !work[i]; lease_unref()	/* event_add() has failed: wait_here() */
	fi;
#endif
	cache_unref();
	lease_unref();
	ended++
}

/* Another frame in the same buffer: cache_get(), and its deleter. */
proctype again() {
	bool last;

	take();
	if
	:: table -> cache_use(); lock = false; assert(!destroyed); cache_unref()
	:: else -> lock = false
	fi;
	ended++
}

proctype trimmer() { bool last; trim(); ended++ }

/* The device's work ends, and "dlbuf-events" sees its fence. */
active proctype device() { do :: d_step { work[0] -> work[0] = false } :: d_step { work[1] -> work[1] = false } od }
active proctype events() {
	bool last;

end:	do
	:: event[0] && !work[0] -> event[0] = false; lease_unref()
	:: event[1] && !work[1] -> event[1] = false; lease_unref()
	od
}

init {
	bool last;

	atomic { run tensor(0); run tensor(1); run again(); run trimmer() }
	ended == 4;
	trim()			/* the device is closed */
}

ltl all_ends { <> (fires == 1 && destroyed == 1) }
