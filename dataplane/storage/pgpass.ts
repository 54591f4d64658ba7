/** The connection that a password is for. */
interface PgpassKey {
  readonly host: string
  readonly port: number
  readonly database: string
  readonly user: string
}

/**
 * The password that a pgpass file has for a connection: the first line `host:port:database:user:password` that matches,
 * where `*` stands for anything and a backslash before a colon or a backslash (PostgreSQL, section 34.16). Undefined where
 * there is none.
 */
export function pgpassPassword(text: string, { host, port, database, user }: PgpassKey): string | undefined {
  const wanted = [host, String(port), database, user]
  for (const line of text.split(/\r?\n/)) {
    if (line.startsWith('#')) continue
    const [, ...fields] = LINE.exec(line) ?? []
    const password = fields.pop()
    if (password !== undefined && fields.every((field, index) => field === '*' || plain(field) === wanted[index]))
      return plain(password)
  }
  return undefined
}

/** Four fields that end with a colon, and all that follows. */
const LINE = new RegExp(`^${'((?:\\\\.|[^\\\\:])*):'.repeat(4)}(.*)$`)

const plain = (field: string) => field.replace(/\\(.)/g, '$1')
