import { isReportedStatus, type ReportedStatus } from '../../../dataplane/config/status.ts'

const PATIENCE_MS = 2_000

/** What a data plane of this machine tells on `/status`; undefined where it gives no such answer. */
export async function toldStatus(adminUrl: string): Promise<ReportedStatus | undefined> {
  try {
    const response = await fetch(`${adminUrl}/status`, { signal: AbortSignal.timeout(PATIENCE_MS) })
    const status: unknown = await response.json()
    return isReportedStatus(status) ? status : undefined
  } catch {
    // It is not up yet, or no more: whoever asks asks again.
    return undefined
  }
}
