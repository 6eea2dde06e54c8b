'use client';
// CodeMirror, with what /api/check says of the text beside its lines.
import { javascript } from '@codemirror/lang-javascript';
import { python } from '@codemirror/lang-python';
import { HighlightStyle, syntaxHighlighting } from '@codemirror/language';
import { type Diagnostic, lintGutter, setDiagnostics } from '@codemirror/lint';
import { EditorState } from '@codemirror/state';
import { EditorView } from '@codemirror/view';
import { tags as t } from '@lezer/highlight';
import { basicSetup } from 'codemirror';
import { useEffect, useRef } from 'react';
import type { CodeLanguage } from '@/lib/workflows/types';
import { type Mark, marks, setMark } from './editor-marks';
import { visible } from './text';

const CHECK_AFTER_MS = 450;

const colours = HighlightStyle.define([
  { tag: [t.keyword, t.operatorKeyword, t.modifier], color: 'var(--syntax-keyword)' },
  { tag: [t.string, t.special(t.string), t.regexp], color: 'var(--syntax-string)' },
  { tag: [t.number, t.bool, t.null], color: 'var(--syntax-number)' },
  { tag: t.comment, color: 'var(--muted)', fontStyle: 'italic' },
  { tag: [t.function(t.variableName), t.function(t.propertyName)], color: 'var(--syntax-function)' },
  { tag: [t.typeName, t.className], color: 'var(--syntax-type)' },
]);

const grammar = (language: CodeLanguage | 'json') =>
  language === 'python' ? python() : javascript({ typescript: language === 'typescript' });

interface Check {
  errors?: { message: string; line: number | null; column: number | null }[];
}

function diagnosticsOf(state: EditorState, check: Check): Diagnostic[] {
  return (check.errors ?? []).map(({ message, line, column }) => {
    const place = state.doc.line(Math.min(Math.max(line ?? 1, 1), state.doc.lines));
    const from = Math.min(place.from + Math.max((column ?? 1) - 1, 0), place.to);
    return { from, to: Math.max(place.to, from), severity: 'error', message: visible(message) };
  });
}

/** The text must still be what was asked about, or the mark would stand in the wrong place. */
async function check(view: EditorView, language: CodeLanguage, signal: AbortSignal) {
  const { doc } = view.state;
  try {
    const response = await fetch('/api/check', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ language, code: doc.toString() }),
      signal,
    });
    if (!response.ok || signal.aborted) return;
    const found = diagnosticsOf(view.state, await response.json());
    if (view.state.doc === doc) view.dispatch(setDiagnostics(view.state, found));
  } catch {
    // Without a jail there are no marks; a run says why.
  }
}

export function CodeEditor(props: {
  label: string;
  language: CodeLanguage | 'json';
  code: string;
  mark: Mark | null;
  onChange: (code: string) => void;
}) {
  const { label, language, mark } = props;
  const place = useRef<HTMLDivElement>(null);
  const view = useRef<EditorView | null>(null);
  const changed = useRef(props.onChange);
  changed.current = props.onChange;
  const first = useRef(props.code);

  useEffect(() => {
    if (!place.current) return;
    let timer = 0;
    let asked = new AbortController();
    const later = (editor: EditorView) => {
      clearTimeout(timer);
      asked.abort();
      if (language === 'json') return;
      asked = new AbortController();
      timer = window.setTimeout(() => void check(editor, language, asked.signal), CHECK_AFTER_MS);
    };
    const editor = new EditorView({
      parent: place.current,
      state: EditorState.create({
        doc: first.current,
        extensions: [
          basicSetup,
          grammar(language),
          syntaxHighlighting(colours),
          marks,
          lintGutter(),
          EditorView.contentAttributes.of({ 'aria-label': label }),
          EditorView.updateListener.of((update) => {
            if (!update.docChanged) return;
            first.current = update.state.doc.toString();
            changed.current(first.current);
            later(update.view);
          }),
        ],
      }),
    });
    view.current = editor;
    later(editor);
    return () => {
      clearTimeout(timer);
      asked.abort();
      editor.destroy();
    };
  }, [label, language]);

  // biome-ignore lint/correctness/useExhaustiveDependencies: a new editor needs its mark again
  useEffect(() => {
    view.current?.dispatch({ effects: setMark.of(mark) });
    const line =
      mark && view.current && mark.line <= view.current.state.doc.lines ? view.current.state.doc.line(mark.line) : null;
    if (line) view.current?.dispatch({ effects: EditorView.scrollIntoView(line.from, { y: 'nearest', yMargin: 60 }) });
  }, [mark, label, language]);

  return <div className="editor" ref={place} />;
}
