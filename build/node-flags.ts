/**
 * What Portico gives Node; bin/portico and the Dockerfile say the same.
 *
 * The young generation is bounded to three times 16 MiB: V8's default, three times 32, is memory that a gateway with
 * 10,000 sessions has no use for (177 MiB instead of 258), and calls cost the same. It begins with twice 2 MiB instead of
 * 1: an operator, whose stays as it begins (cli/memory.ts), spends a third less time on garbage, and an idle proxy holds
 * no more. One thread collects it: there is little that survives, and waking others for it took 5 % of a call's processor
 * time.
 */
export const NODE_FLAGS = ['--min-semi-space-size=2', '--max-semi-space-size=16', '--no-parallel-scavenge'] as const
