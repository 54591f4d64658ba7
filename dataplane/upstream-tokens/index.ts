export { createMemoryTokenStore } from './memory-store.ts'
export { createRedisTokenStore } from './redis-store.ts'
export { createSealer, type Sealer } from './seal.ts'
export type { LinkOffer, MakeLink } from './store.ts'
export {
  ASSERTION_CLAIM,
  isOfUser,
  LOGIN_CLAIM,
  type Lock,
  loginOf,
  type Place,
  PROVIDER_CLAIM,
  type PutOptions,
  placeOfAssertion,
  placeOfUser,
  type StoredTokenSet,
  type UpstreamTokenSet,
  type UpstreamTokenStore,
} from './store.ts'
