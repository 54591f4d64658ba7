/**
 * The flags that Portico passes to Node; bin/portico and the Dockerfile repeat them.
 *
 * The young generation is bounded to three times 16 MiB. V8's default, three times 32, is memory that a gateway with
 * 10,000 sessions does not need (177 MiB instead of 258), and calls cost the same. It begins with twice 2 MiB instead
 * of 1: an operator, whose young generation keeps its initial size (cli/memory.ts), spends a third less time on
 * garbage, and an idle proxy holds no more. One thread collects it: few objects survive, and waking other threads took
 * 5 % of a call's processor time.
 */
export const NODE_FLAGS = ['--min-semi-space-size=2', '--max-semi-space-size=16', '--no-parallel-scavenge'] as const
