import type { AuthServerConfig } from '../config/auth-server.ts'
import type { AuthServerStatus } from '../config/status.ts'
import type { SigningKeys } from './keys/signing-keys.ts'
import type { WatchedUpstream } from './login/upstream/watched-upstream.ts'
import type { Revocations } from './provider/revocations.ts'

interface StatusParts {
  readonly config: AuthServerConfig
  readonly upstreams: readonly WatchedUpstream[]
  readonly revocations: Revocations
  keys(): SigningKeys
}

/** How a server stands, as the admin listener tells it. */
export function statusOf({ config, upstreams, revocations, keys }: StatusParts): AuthServerStatus {
  const type = config.storage?.redis === undefined ? 'memory' : 'redis'
  return {
    issuer: config.issuer,
    storage: { type, answers: type === 'memory' ? true : revocations.isAnswered },
    keys: keyIds(keys),
    providers: upstreams.map(({ state }) => state),
  }
}

/** None while the keys can't be read; the log says why. */
function keyIds(keys: () => SigningKeys): readonly string[] {
  try {
    return keys().publicKeys.flatMap(({ kid }) => (kid === undefined ? [] : [kid]))
  } catch {
    return []
  }
}
