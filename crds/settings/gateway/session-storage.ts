import { limits } from '../limits.ts'
import { hostAndPort, redis } from '../redis.ts'
import { secretKeyRef } from '../references.ts'
import { choice, defaulted, integer, object, type Reader, Type, text } from '../schema.ts'

/** Memory storage has no address, no databases and no key names. */
const redisOnly = {
  rule: "self.provider == 'redis' || !(has(self.address) || has(self.keyPrefix) || self.db != 0)",
  message: 'address, db and keyPrefix are for provider redis',
}

const fields = (readBy: Reader) => ({
  provider: choice(readBy, 'Storage of sessions.', ['memory', 'redis']),
  address: Type.Optional(hostAndPort(readBy, 'HOST:PORT of Redis.')),
  db: defaulted(integer(readBy, 'Database number.', { minimum: 0, default: 0 })),
  keyPrefix: Type.Optional(text(readBy, 'Prefix of all keys.', { max: limits.name })),
})

export const sessionStorage = (readBy: Reader) =>
  object(
    'Storage of sessions and counters. Absent: in memory.',
    {
      ...fields(readBy),
      passwordRef: Type.Optional(secretKeyRef(readBy, 'Password of Redis.')),
      redis: Type.Optional(redis(readBy)),
    },
    {
      rules: [
        {
          rule: "self.provider == 'redis' ? has(self.address) != has(self.redis) : true",
          message: 'provider redis needs exactly one of address and redis',
        },
        {
          rule: "self.provider == 'redis' || !has(self.redis)",
          message: 'redis is for provider redis',
        },
        redisOnly,
        {
          rule: '!has(self.passwordRef) || has(self.address)',
          message: 'passwordRef goes with address; beside redis set redis.aclUserConfig',
        },
        {
          rule: '!has(self.redis) || !has(self.redis.sentinelConfig) || self.db == 0',
          message: 'under Sentinel the database is redis.sentinelConfig.db',
        },
      ],
    },
  )

/** The same storage in `config.sessionStorage` of a VirtualMCPServer, without a password. */
export const plainSessionStorage = (readBy: Reader) =>
  object('Storage of sessions and counters.', fields(readBy), {
    rules: [
      { rule: "self.provider != 'redis' || has(self.address)", message: 'provider redis needs address' },
      redisOnly,
    ],
  })
