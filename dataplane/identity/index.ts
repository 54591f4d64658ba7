import { resolve } from 'node:path'
import { API_SERVER } from '../../crds/settings/gateway/defaults.ts'
import { JWKS_TOKENS } from '../config/check/token-path.ts'
import type { GatewayConfig } from '../config/gateway.ts'
import { PublicError } from '../server/errors.ts'
import { anonymous } from './caller.ts'
import type { LocalIssuer } from './issuers.ts'
import { type Verifier, type VerifyOptions, verifyTokens } from './verify.ts'

export {
  type Authenticate,
  boundKey,
  type Caller,
  type CallerRequest,
  CLIENT_SUBJECT,
  isBoundToKey,
  isEmailVerified,
  isExpired,
  SKEW_S,
} from './caller.ts'
export { parseDocument } from './discovery.ts'
export { Issuers, type LocalIssuer, type OpenProvider, type Provider } from './issuers.ts'
export { issuerOf, verifyJwt } from './jwt.ts'
export { checkProof, ProofError, proofTarget } from './proof/proof.ts'
export { type ProofGuard, ProofNonces, type ProofState, proofGuard } from './proof/proof-guard.ts'
export { ProofKeys } from './proof/proof-keys.ts'
export { storedMark, type UsedProof, UsedProofs } from './proof/used-proofs.ts'
export {
  type ProtectedResourceMetadata,
  protectedResourceMetadata,
  resourceMetadataPaths,
  resourceMetadataUrl,
} from './resource-metadata.ts'
export { isSigned, isSignedElsewhere, keyFor, SIGNATURE_ALGORITHMS, type SignatureKey } from './signature.ts'
export type { Verifier } from './verify.ts'

interface AuthenticateOptions extends Omit<VerifyOptions, 'realm' | 'scopes'> {
  readonly directory?: string
  readonly local?: LocalIssuer | undefined
  /** The folder of the tokens for key endpoints; absent: the mount path in pods. */
  readonly tokenFolder?: string
}

/** Creates the function that authenticates requests. `close` ends its connections to the issuer. */
export function createAuthenticate(
  { oidc }: GatewayConfig['incomingAuth'],
  { directory = '.', tokenFolder = JWKS_TOKENS, local, ...options }: AuthenticateOptions,
): Verifier {
  if (oidc === undefined) {
    const stepUp = () => new PublicError('insufficient_scope')
    // Without an issuer, there are no connections to close.
    const nobody = { recheck: () => anonymous, issuers: () => [], stepUp, close: async () => undefined }
    return Object.assign(() => anonymous, nobody)
  }
  const fileOf = (path: string | undefined) => (path === undefined ? undefined : resolve(directory, path))
  const provider = {
    ...oidc,
    local: local?.issuer === oidc.issuer ? local : undefined,
    caBundleFile: fileOf(oidc.caBundleFile),
    bearerTokenFile: fileOf(oidc.bearerTokenFile),
    tokenFolder,
    cluster: oidc.cluster && {
      apiServer: oidc.cluster.apiServer ?? API_SERVER,
      tokenFile: resolve(directory, oidc.cluster.tokenFile),
      caFile: fileOf(oidc.cluster.caFile),
    },
    introspection: oidc.introspection && {
      ...oidc.introspection,
      clientSecretFile: fileOf(oidc.introspection.clientSecretFile),
    },
  }
  return verifyTokens([provider], {
    realm: oidc.issuer ?? provider.cluster?.apiServer ?? '',
    scopes: oidc.scopes,
    ...options,
  })
}
