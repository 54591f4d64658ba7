export { createRedisTokenStore, createSealer, type Sealer } from './redis-store.ts'
export {
  ASSERTION_CLAIM,
  createMemoryTokenStore,
  isOfUser,
  type LinkOffer,
  LOGIN_CLAIM,
  type Lock,
  loginOf,
  type MakeLink,
  type Place,
  PROVIDER_CLAIM,
  type PutOptions,
  placeOfAssertion,
  placeOfUser,
  type StoredTokenSet,
  type UpstreamTokenSet,
  type UpstreamTokenStore,
} from './store.ts'
