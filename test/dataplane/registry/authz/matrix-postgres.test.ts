import { startPostgres } from '../../../support/network/postgres.ts'
import { authorizationMatrix } from './matrix.ts'

const server = await startPostgres()
authorizationMatrix(
  'on PostgreSQL',
  async () => ({ database: { url: await server.database('matrix'), sslMode: 'disable' } }),
  () => server.close(),
)
