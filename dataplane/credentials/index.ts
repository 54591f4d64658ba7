export { CallerCredential } from './caller-credential.ts'
export { type Credential, CredentialError, type Strategy, type Subject } from './credential.ts'
export { CredentialCache } from './credential-cache.ts'
export { createStrategy } from './strategy.ts'
