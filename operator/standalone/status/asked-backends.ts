/** What a gateway's `/status` tells of one backend, as far as it says whether the backend has been asked. */
export interface AskedBackend {
  readonly url: string
  /** Null until its tools are known. */
  readonly latencyMs: number | null
  /** `at` is RFC 3339. */
  readonly lastError: { readonly at: string } | null
}

export const backendsIn = (status: object): readonly AskedBackend[] =>
  (status as { readonly backends?: readonly AskedBackend[] }).backends ?? []

/**
 * Whether every backend that is a server of this machine has been asked since that server came up, be the answer a
 * list of tools or a failure. `servers` says since when each is up (milliseconds since 1970) by the origin of its URL.
 */
export function hasAskedAll(backends: readonly AskedBackend[], servers: ReadonlyMap<string, number>): boolean {
  return backends.every(({ url, latencyMs, lastError }) => {
    const upSince = servers.get(new URL(url).origin)
    return upSince === undefined || latencyMs !== null || (lastError !== null && Date.parse(lastError.at) >= upSince)
  })
}
