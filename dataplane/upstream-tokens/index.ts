export { createMemoryTokenStore } from './memory-store.ts'
export { createRedisTokenStore } from './redis-store.ts'
export { createSealer, type Sealer } from './seal.ts'
export type { LinkOffer, MakeLink } from './store.ts'
export {
  LOGIN_CLAIM,
  type Lock,
  loginOf,
  type Place,
  type PutOptions,
  type StoredTokenSet,
  type UpstreamTokenSet,
  type UpstreamTokenStore,
} from './store.ts'
