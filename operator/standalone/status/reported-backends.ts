import { isReportedBackend, type ReportedBackend, type ReportedStatus } from '../../../dataplane/config/status.ts'

/** The backends of a gateway's `/status`; undefined where they have another form than a gateway's. */
export const backendsIn = ({ backends = [] }: ReportedStatus): readonly ReportedBackend[] | undefined =>
  backends.every(isReportedBackend) ? backends : undefined

/**
 * Whether every backend that is a server of this machine has been tried since that server came up, be the answer a
 * list of tools or a failure. `servers` says since when each is up (milliseconds since 1970) by the origin of its URL.
 */
export function hasTriedAll(backends: readonly ReportedBackend[], servers: ReadonlyMap<string, number>): boolean {
  return backends.every(({ url, latencyMs, lastError }) => {
    const upSince = servers.get(new URL(url).origin)
    return upSince === undefined || latencyMs !== null || (lastError !== null && Date.parse(lastError.at) >= upSince)
  })
}
