'use strict';
// The dashboard as a person has it: in a browser, before real jails.

const { describe, it, before, after } = require('node:test');
const assert = require('node:assert/strict');
const { serve, launch, screenshot, whyNot } = require('./served.js');
const gvisor = require('../../scripts/in-gvisor.js');

const LONG = 60000;
const DESK = { viewport: { width: 1360, height: 820 } };
const TOKEN = 'a-token-of-the-browser-test-only-0123456789';

let browser;

/** A page with an empty store; what its scripts complain of is collected. */
async function open(url, options = {}) {
  const context = await browser.newContext({ ...DESK, ...options });
  const page = await context.newPage();
  page.setDefaultTimeout(LONG);
  page.complaints = [];
  page.on('pageerror', (error) => page.complaints.push(error.message));
  await page.goto(url);
  return page;
}

async function openEditor(url, options) {
  const page = await open(url, options);
  await page.waitForSelector('.cm-content');
  return page;
}

async function write(page, code) {
  await page.click('.cm-content');
  await page.keyboard.press('Control+a');
  await page.keyboard.insertText(code);
}

const stateIs = (page, text) =>
  page.waitForFunction((text) => document.querySelector('.inspector .state')?.textContent === text, text);
const tree = (page) => page.locator('.tree').innerText();
const runNode = (page) => page.keyboard.press('Control+Enter');

describe('the dashboard in a browser', { skip: whyNot() }, () => {
  let app;
  before(async () => {
    app = await serve();
    browser = await launch();
  });
  after(async () => {
    await browser?.close();
    await app?.stop();
  });

  it('runs one node, and says which walls stood as the result has it', async () => {
    const page = await openEditor(app.url);
    // Read on its way: the browser itself may have let go of a stream's body by the time that one asks for it.
    let answer = '';
    await page.route('**/api/workflows/run', async (route) => {
      const response = await route.fetch();
      answer = await response.text();
      await route.fulfill({ response, body: answer });
    });
    await page.click('text=Run node');
    await stateIs(page, 'Succeeded');
    assert.match(await tree(page), /subtotal\s*544\.5/);
    const { jail } = answer
      .split('\n')
      .filter(Boolean)
      .map((line) => JSON.parse(line))
      .find((event) => event.type === 'outcome').outcome;
    const badge = page.locator('details.jail');
    const kind = jail.isolation === 'unverified' ? 'unverified' : jail.missing.length > 0 ? 'partly' : 'whole';
    assert.match(await badge.getAttribute('class'), new RegExp(`\\b${kind}\\b`));
    await badge.locator('summary').click();
    assert.deepEqual(await page.locator('.walls li:not(.missing) code').allTextContents(), jail.layers);
    assert.deepEqual(
      await page.locator('.walls .missing code').allTextContents(),
      jail.missing.map((one) => one.layer),
    );
    assert.match(await badge.innerText(), /this machine · node \d+/);
  });

  it('runs the chain by keys alone, and moves between its nodes', async () => {
    const page = await openEditor(app.url);
    await page.keyboard.press('Control+Shift+Enter');
    await page.waitForFunction(() => document.querySelector('.say').textContent === 'Invoice: Succeeded');
    await page.keyboard.press('j');
    assert.equal(await page.textContent('.pane h2'), 'Add tax');
    await screenshot(page, 'light');
    await page.keyboard.press('ArrowDown');
    assert.match(await tree(page), /total\s*“647\.96”/);
    await page.keyboard.press('?');
    assert.ok(await page.isVisible('dialog[open]'));
    await page.keyboard.press('Escape');
    await page.waitForSelector('dialog[open]', { state: 'detached' });
    assert.deepEqual(page.complaints, []);
  });

  it('runs TypeScript, and marks its errors on the lines that were written', async () => {
    const page = await openEditor(app.url);
    await page.locator('select').first().selectOption('typescript');
    await write(page, 'interface Price { net: number }\nconst price: Price = { net: 2 };\nreturn price.net * 21;\n');
    await runNode(page);
    await stateIs(page, 'Succeeded');
    assert.match(await tree(page), /42/);
    await write(page, 'interface Price { net: number }\nconst price = null as unknown as Price;\nreturn price.net;\n');
    await runNode(page);
    await stateIs(page, 'Failed');
    assert.equal(await page.textContent('.cm-runLine'), 'return price.net;');
  });

  it('marks an error on its line until the text changes', async () => {
    const page = await openEditor(app.url);
    await write(page, 'const rate = 2;\nreturn input.rates.DE * rate;\n');
    await runNode(page);
    await stateIs(page, 'Failed');
    assert.equal(await page.textContent('.cm-runLine'), 'return input.rates.DE * rate;');
    assert.match(await page.textContent('.cm-runError'), /^TypeError: /);
    await screenshot(page, 'error');
    await page.click('.cm-content');
    await page.keyboard.type(' ');
    assert.equal(await page.locator('.cm-runLine').count(), 0);
  });

  it('marks what cannot be compiled while it is written', async () => {
    const page = await open(app.url);
    await page.waitForResponse((response) => response.url().endsWith('/api/check'));
    assert.equal(await page.locator('.cm-lintRange-error, .cm-lint-marker-error').count(), 0);
    await write(page, 'return 1 +* 2');
    await page.waitForSelector('.cm-lint-marker-error');
    await write(page, 'return 1 + 2');
    await page.waitForSelector('.cm-lint-marker-error', { state: 'detached' });
  });

  it('tells a time-out from a failure', async () => {
    const page = await openEditor(app.url, { colorScheme: 'dark' });
    await page.fill('.limit input >> nth=0', '700');
    await write(page, 'for (;;) {}\n');
    await runNode(page);
    await stateIs(page, 'Timed out');
    assert.equal(await page.locator('.cm-runLine.warn').textContent(), 'for (;;) {}');
    await screenshot(page, 'timeout-dark');
  });

  it('shows output before the end, and cancels by Escape', async () => {
    const page = await openEditor(app.url);
    await page.fill('.limit input >> nth=0', '60000');
    await write(
      page,
      'console.log("out"); console.error("err"); await new Promise((done) => setTimeout(done, 50000)); return 1',
    );
    await runNode(page);
    await page.waitForSelector('.console .stdout >> text=out');
    await page.waitForSelector('.console .stderr >> text=err');
    assert.equal(await page.textContent('.inspector .state'), 'Running');
    await page.keyboard.press('Escape');
    await stateIs(page, 'Cancelled');
    assert.ok(await page.isEnabled('text=Run node'));
  });

  it('is whole on a phone, and remembers its theme and the edits', async () => {
    const page = await openEditor(app.url, { viewport: { width: 390, height: 844 }, colorScheme: 'light' });
    await page.click('text=Run chain');
    await page.waitForFunction(() => document.querySelector('.say').textContent === 'Invoice: Succeeded');
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
    await screenshot(page, 'phone');
    await page.click('[aria-label="Switch between light and dark"]');
    await write(page, 'return "kept"');
    await page.reload();
    await page.waitForSelector('.cm-content');
    assert.equal(await page.getAttribute('html', 'data-theme'), 'dark');
    assert.equal(await page.textContent('.cm-line'), 'return "kept"');
    await page.goto(`${app.url}/status`);
    await page.waitForSelector('.walls li');
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 390);
  });

  it('is not broken by what a guest gives back', async () => {
    const page = await openEditor(app.url);
    await write(
      page,
      `console.log('\\u001b[31mred\\u001b[2J \\u202Ereversed <img src=x onerror=alert(1)>');
console.log('x'.repeat(500000));
for (let i = 0; i < 20000; i++) console.log(i);
const many = Array.from({ length: 180000 }, (_, i) => i);
return { ['__proto__']: { polluted: 1 }, html: '<script>window.hit = 1</script>', bidi: '\\u202Eabc', many };`,
    );
    await runNode(page);
    await stateIs(page, 'Succeeded');
    const text = await tree(page);
    assert.match(text, /__proto__\s*\{ 1 key \}/);
    assert.match(text, /<script>window\.hit = 1<\/script>/);
    assert.match(text, /\\u\{202E\}abc/);
    assert.match(text, /many\s*\[ 180,000 \]/);
    await page.click('.fold >> text=many');
    await page.waitForSelector('text=Show 100 more of 179,900');
    assert.ok((await page.locator('.console .line').count()) <= 500);
    assert.match(await page.textContent('.console'), /lines left out/);
    assert.equal(await page.evaluate(() => window.hit ?? {}.polluted), undefined);
    assert.ok((await page.locator('*').count()) < 3000);
    assert.deepEqual(page.complaints, []);
  });

  it('tells where the jail stands', async () => {
    const page = await open(`${app.url}/status`, { colorScheme: 'dark' });
    await page.waitForSelector('.walls li');
    assert.match(await page.innerText('main'), /Configured\s+this machine/);
    await screenshot(page, 'status-dark');
  });

  it('tells a jail that cannot be reached from the code’s fault', async () => {
    const lost = await serve({ CODE_SANDBOX_URL: 'http://127.0.0.1:9', CODE_SANDBOX_TOKEN: TOKEN });
    try {
      const page = await openEditor(lost.url);
      await page.click('text=Run node');
      await stateIs(page, 'Jail unavailable');
      assert.match(await page.innerText('.problem.jail-trouble'), /The jail, not your code/);
      assert.equal(await page.locator('details.jail, .cm-runLine').count(), 0);
      await page.click('text=Open the status page');
      await page.waitForSelector('.card');
      await screenshot(page, 'status-lost');
      assert.match(await page.innerText('main'), /Reachable\s+No/);
      assert.doesNotMatch(await page.innerText('main'), /127\.0\.0\.1/, 'no address of the server’s');
      assert.match(await page.innerText('main'), /ERR_JAIL_UNAVAILABLE/);
    } finally {
      await lost.stop();
    }
  });

  it('says gVisor where gVisor was verified', { skip: gvisor.whyNot() }, async () => {
    const service = await gvisor.startInGvisor({ token: TOKEN });
    let inside;
    try {
      inside = await serve({ CODE_SANDBOX_URL: service.url, CODE_SANDBOX_TOKEN: TOKEN });
      const page = await openEditor(inside.url);
      await page.click('text=Run node');
      await stateIs(page, 'Succeeded');
      assert.match(await page.innerText('details.jail summary'), /gVisor[\s\S]*sandbox service · node/);
      await page.goto(`${inside.url}/status`);
      await page.waitForSelector('.card h2 .state');
      assert.equal(await page.textContent('.card h2 .state'), 'gVisor');
      await screenshot(page, 'status-gvisor');
    } finally {
      await inside?.stop();
      await service.stop();
    }
  });
});
