import type { BackendFailure } from '../connection/failure.ts'

/** Statuses that say something of the credentials, the load or the path between, and nothing of the era. */
export const NO_EVIDENCE: ReadonlySet<number> = new Set([401, 403, 407, 408, 425, 429])

/** Whether the backend has said that it has no session to give. */
export const isRefusal = ({ status }: BackendFailure): boolean =>
  status === 200 || (status !== undefined && status >= 400 && status < 500 && !NO_EVIDENCE.has(status))
