import Type, { type Static } from 'typebox'

const file = (description: string) => Type.Optional(Type.String({ description, minLength: 1 }))
const text = (description: string, maxLength: number) =>
  Type.Optional(Type.String({ description, minLength: 1, maxLength }))

/** PostgreSQL, which several replicas share. */
export const databaseSchema = Type.Object(
  {
    url: Type.Optional(
      Type.String({ description: 'Connection URL; a password is better in a file.', pattern: '^postgres(ql)?://' }),
    ),
    urlFile: file('File of the connection URL; read anew for each connection.'),
    host: text('Host.', 253),
    port: Type.Optional(Type.Integer({ description: 'Port; 5432 when left out.', minimum: 1, maximum: 65535 })),
    user: text('User.', 63),
    passwordFile: file('File of the password; read anew for each connection.'),
    pgpassFile: file('pgpass file with the password, instead of `passwordFile`; read anew for each connection.'),
    database: text('Database.', 63),
    sslMode: Type.Optional(
      Type.Enum(['disable', 'allow', 'prefer', 'require', 'verify-ca', 'verify-full'], {
        type: 'string',
        description: 'TLS, as libpq’s sslmode; when left out that of the URL, or else require.',
      }),
    ),
    caFile: file('PEM file of the CAs trusted for the server; absent: those of the system.'),
  },
  {
    description: 'PostgreSQL; absent: a file of SQLite in the state directory.',
    additionalProperties: false,
  },
)

export type DatabaseConfig = Static<typeof databaseSchema>
