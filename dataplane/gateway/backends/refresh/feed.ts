import type { FailurePolicy } from '../health/failure-policy.ts'

/** Keeps what is known of a backend up to date. */
export interface Feed {
  /** Settles when the first attempt has ended, however it ended. */
  readonly tried: Promise<void>
  /** Asks now. */
  refresh(): void
  /** Takes another policy; its interval counts from now on. */
  follow(policy: FailurePolicy): void
  stop(): void
}
