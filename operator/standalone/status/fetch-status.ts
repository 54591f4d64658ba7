import { isReportedStatus, type ReportedStatus } from '../../../dataplane/config/status.ts'

const TIMEOUT_MS = 2_000

/** Reads `/status` of a data plane on this machine. Returns undefined if it gives no valid answer. */
export async function fetchStatus(adminUrl: string): Promise<ReportedStatus | undefined> {
  try {
    const response = await fetch(`${adminUrl}/status`, { signal: AbortSignal.timeout(TIMEOUT_MS) })
    const status: unknown = await response.json()
    return isReportedStatus(status) ? status : undefined
  } catch {
    // It is not up yet or has ended. The caller tries again.
    return undefined
  }
}
