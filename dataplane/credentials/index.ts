export { CallerCredential, CredentialCache, MARGIN_MS } from './caller-credential.ts'
export {
  type Credential,
  CredentialError,
  type SignRequest,
  type Strategy,
  type Subject,
} from './credential.ts'
export { storedUpstreamTokens } from './stored-upstream-tokens.ts'
export { bearerOf, createStrategy, forwardedHeaders } from './strategy.ts'
export { holderOf, noUpstreamTokens, type UpstreamTokens } from './upstream-tokens.ts'
