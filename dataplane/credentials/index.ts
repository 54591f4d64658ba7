export { CallerCredential } from './caller-credential.ts'
export {
  type Credential,
  CredentialError,
  type SignRequest,
  type Strategy,
  type Subject,
} from './credential.ts'
export { CredentialCache, MARGIN_MS } from './credential-cache.ts'
export { bearerOf, forwardedHeaders } from './forwarded.ts'
export { storedUpstreamTokens } from './stored-upstream-tokens.ts'
export { createStrategy } from './strategy.ts'
export { holderOf, noUpstreamTokens, type UpstreamTokens } from './upstream-tokens.ts'
