const PATIENCE_MS = 2_000

/** What a data plane of this machine tells on `/status`; undefined where it gives no such answer. Nobody has checked it. */
export async function toldStatus(adminUrl: string): Promise<Readonly<Record<string, unknown>> | undefined> {
  try {
    const response = await fetch(`${adminUrl}/status`, { signal: AbortSignal.timeout(PATIENCE_MS) })
    const status: unknown = await response.json()
    return typeof status === 'object' && status !== null ? (status as Record<string, unknown>) : undefined
  } catch {
    return undefined
  }
}
