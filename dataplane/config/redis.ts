import Type, { type Static } from 'typebox'
import { duration } from '../../crds/shared/schema.ts'

const strict = { additionalProperties: false }
const file = (description: string) => Type.String({ description, minLength: 1 })

const tls = (description: string) =>
  Type.Object(
    {
      caFile: Type.Optional(file('PEM file of CAs trusted besides the system’s.')),
      insecureSkipVerify: Type.Optional(Type.Boolean({ description: 'Accept any certificate.', default: false })),
    },
    { ...strict, description },
  )

/** How Redis is reached: one server, a Cluster by some of its nodes, or what Sentinel calls the master. */
export const redisSettings = Type.Object(
  {
    mode: Type.Optional(
      Type.Enum(['standalone', 'cluster', 'sentinel'], {
        type: 'string',
        default: 'standalone',
        description: 'What answers at the addresses.',
      }),
    ),
    addresses: Type.Array(Type.String({ pattern: '^[^\\s]+:[0-9]{1,5}$' }), {
      description: 'HOST:PORT of the server, of some nodes of the cluster, or of the Sentinels.',
      minItems: 1,
    }),
    masterName: Type.Optional(Type.String({ description: 'Name of the master set, under sentinel.', minLength: 1 })),
    db: Type.Optional(Type.Integer({ description: 'Database number; a cluster has 0 alone.', minimum: 0, default: 0 })),
    usernameFile: Type.Optional(file('User name. Absent: the default user.')),
    passwordFile: Type.Optional(file('Password; read anew for each connection.')),
    tls: Type.Optional(tls('TLS to Redis. Absent: none.')),
    sentinelTls: Type.Optional(tls('TLS to the Sentinels. Absent: none.')),
    dialTimeout: Type.Optional(duration('gateway', 'Longest wait for a connection.', { default: '5s' })),
    readTimeout: Type.Optional(duration('gateway', 'Longest wait for an answer.', { default: '3s' })),
    writeTimeout: Type.Optional(duration('gateway', 'Longest wait for a write.', { default: '3s' })),
  },
  strict,
)

export type RedisSettings = Static<typeof redisSettings>
