export default function Home() {
  return (
    <main>
      <h1>Workflows</h1>
      <p>The API is served here: POST /api/workflows/run, POST /api/check, GET /api/status.</p>
    </main>
  );
}
