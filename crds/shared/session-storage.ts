import { limits } from './limits.ts'
import { redis } from './redis.ts'
import { secretKeyRef } from './references.ts'
import { choice, defaulted, integer, object, type Reader, Type, text } from './schema.ts'

const fields = (readBy: Reader, redisReadBy: Reader) => ({
  provider: choice(readBy, 'Where sessions are kept.', ['memory', 'redis'], {
    ...(redisReadBy === 'later' ? { laterValues: ['redis'] } : {}),
  }),
  address: Type.Optional(text(redisReadBy, 'HOST:PORT of Redis.', { min: 1, max: limits.url })),
  db: defaulted(integer(redisReadBy, 'Database number.', { minimum: 0, default: 0 })),
  keyPrefix: Type.Optional(text(redisReadBy, 'Put before the names of all keys.', { max: limits.name })),
})

/** Where sessions and rate-limit counters are kept. */
export const sessionStorage = (readBy: Reader, redisReadBy: Reader) =>
  object(
    'Where sessions and counters are kept. Absent: in memory.',
    {
      ...fields(readBy, redisReadBy),
      passwordRef: Type.Optional(secretKeyRef(redisReadBy, 'Password of Redis.')),
      redis: Type.Optional(redis(redisReadBy)),
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
      ],
    },
  )

/** The same in `config.sessionStorage` of a VirtualMCPServer: without a password. */
export const plainSessionStorage = (readBy: Reader, redisReadBy: Reader) =>
  object('Where sessions and counters are kept.', fields(readBy, redisReadBy), {
    rules: [{ rule: "self.provider != 'redis' || has(self.address)", message: 'provider redis needs address' }],
  })
