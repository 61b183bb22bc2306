/* SPDX-License-Identifier: MIT */
/*
 * lib/queue as a model: host functions, the loss of a device, and frees. spin checks all
 * orders of all steps; see run.
 *
 * As in lib/queue, but that there the gate closes when more than a few frees wait.
 *
 * Two imports. Each has one host function on a stream, and the event behind it, for which
 * a reader on another device waits, if there is one import. Two cameras put waits for fences on streams, for ever.
 * A free of the driver waits for all streams, so the library frees only while no stream
 * waits for a fence. The second camera is on another device of the same context.
 *
 * -DOLD_LOST: a lost device counts as one that runs nothing. -DOLD_GATE: frees wait until
 * no wait happens to stand. -DOLD_LIST: what is dropped is not found any more. -DOLD_OWN:
 * each device has a gate of its own. All are how the library was, and are found.
 */
#ifndef IMPORTS
#define IMPORTS 2
#endif
#define CAMERAS 2

mtype = { none, queued, running, over, cancelled };
mtype function[IMPORTS] = none;	/* struct queue_function */
bool event[IMPORTS];		/* the event behind the function is complete */
bool dropped[IMPORTS], freed[IMPORTS];
bool listed[IMPORTS] = true;	/* in the table of the cache */
byte users[IMPORTS];		/* readers that have found it there */
bool lost;

bool waits[CAMERAS];		/* a stream waits for this camera's fence */
bool stood[CAMERAS];		/* and did so when the first import was dropped */
byte beginning;			/* threads that put a wait on a stream */
byte freeing;			/* threads inside a free */
bool closing;			/* new waits are those of the calling threads */

#ifdef OLD_LOST
#define begins(i)	true
#define ended(i)	(event[i] || lost)
#else
#define begins(i)	(function[i] == queued)
#define ended(i)	(event[i] || (lost && function[i] != running))
#endif
#define any_waits	(waits[0] || waits[1])
#ifdef OLD_OWN
#define seen_waits	waits[0]
#else
#define seen_waits	any_waits
#endif
#define any_stood	(stood[0] || stood[1])

/* The stream of import i. The driver may have decided on the call before the loss. */
proctype stream(byte i)
{
	if
	:: lost -> goto end		/* CUDA and HIP drop the function */
	:: true				/* OpenCL calls it in any case */
	fi;
	atomic {
		if
		:: begins(i) -> function[i] = running
		:: else -> goto end	/* it was cancelled: it touches nothing */
		fi
	};
	assert(!freed[i]);		/* memcpy() */
	assert(!freed[i]);		/* END, on an fd of the import */
	function[i] = over;
	event[i] = true;
end:	skip
}

/* pending_wait_unfenced(). The work is on the stream, and may be over. */
proctype reader(byte i)
{
	function[i] != none;
	atomic {
		if
		:: listed[i] -> users[i]++
		:: else -> assert(ended(i)); goto end
		fi
	};
	assert(!freed[i]);
	ended(i);
	assert(!freed[i]);
	users[i]--;
end:	skip
}

/* queue_lost(): a function that has not begun will do nothing. */
active proctype loss()
{
	byte i;

	if
	:: true -> skip			/* the device lives */
	:: atomic {
		lost = true;
		for (i : 0 .. IMPORTS - 1) {
			if
			:: function[i] == queued -> function[i] = cancelled
			:: else
			fi
		}
	   }
	fi
}

proctype application(byte i)
{
	/* After the loss no function is put on a stream. */
	atomic { function[i] = (lost -> cancelled : queued) };
	run stream(i);
	atomic {
		dropped[i] = true;	/* the last tensor is deleted, the cache is full */
#ifdef OLD_LIST
		listed[i] = false;
#endif
		if
		:: i == 0 ->
			stood[0] = waits[0];
			stood[1] = waits[1]
		:: else
		fi
	}
}

/* queue_wait_by() */
proctype camera(byte c)
{
	do
	:: atomic { !freeing && !closing -> beginning++ };
		waits[c] = true;
		beginning--;
		waits[c] = false;	/* the fence signals, always */
		stood[c] = false
	:: atomic { !freeing && closing -> skip }	/* the thread waits for the fence */
	od
}

/* "dlbuf-events" frees what was dropped. */
active proctype events()
{
	byte i = 0;

	do
	:: freed[0] && freed[IMPORTS - 1] -> break
	:: else ->
		if
		:: atomic {		/* cache_unlist() */
			dropped[i] && listed[i] && ended(i) && !users[i] ->
			listed[i] = false
		   }
		:: atomic {
			dropped[i] && !listed[i] && !freed[i] && ended(i) &&
			!seen_waits && !beginning ->
			freeing++
		   };
			freed[i] = true;	/* the driver waits for nothing */
			assert(!any_waits);
			atomic { freeing--; closing = false }
#ifndef OLD_GATE
		:: atomic {
			dropped[i] && !listed[i] && !freed[i] && ended(i) &&
			(any_waits || beginning) && !any_stood ->
			closing = true
		   }
#endif
		:: else -> skip
		fi;
		i = (i + 1) % IMPORTS
	od
}

init {
	atomic {
		run application(0);
#if IMPORTS > 1
		run application(1);
#else
		run reader(0);
#endif
		run camera(0);
		run camera(1)
	}
}

ltl freed_in_the_end { [] (dropped[0] -> <> freed[0]) }
