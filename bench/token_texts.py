"""Texts of many kinds, from a seed: what `bench.tokens` measures the estimate for budgets with."""

from __future__ import annotations

import base64
import hashlib
import json
import random
import sysconfig
import uuid
from pathlib import Path

SEED = 7
_SHARED = Path(__file__).parents[2] / "shared" / "data"
_MODULES = ("argparse", "ast", "difflib", "inspect", "socket", "subprocess", "tarfile", "typing", "zipfile")

ENGLISH = (
    "This system keeps the whole history of a conversation while the model sees only what fits. Older messages "
    "are folded into summaries, but the original words stay in the database, and any of them can be found "
    "again. Yesterday at three in the afternoon there was a meeting in London about the new release. The "
    "server ran out of memory and the program stopped, so please look at the log file and repair the error. "
    "Thank you very much for your help! The weather is fine today; let us walk in the park and talk about what "
    "we should do next week. I'm not sure whether Caroline's sister has already booked the tickets, but she'll "
    "probably tell us tomorrow. It took them nearly six months to finish the kitchen, and they're still "
    "waiting for the table."
)
CHINESE = (
    "这个系统的目标是在上下文窗口有限的情况下保留完整的对话历史。每当消息数量超过阈值时,较早的消息会被总结成摘要,而"
    "原始内容仍然保存在数据库中。用户可以随时通过搜索工具找回任何细节。我们在测试中发现,数据库的写入速度取决于磁盘和"
    "事务的大小。昨天下午三点,王小明在上海参加了一个关于人工智能的会议,他说服务器的内存不足导致程序崩溃。请检查日志"
    "文件并修复这个错误。谢谢您的帮助!北京的天气很好,我们去公园散步吧。经济发展和环境保护之间需要取得平衡。"
)
JAPANESE = (
    "このシステムは、限られたコンテキストの中で会話の履歴をすべて保存することを目的としています。古いメッセージは要約"
    "されますが、元の内容はデータベースに残ります。昨日の午後三時に東京で会議がありました。サーバーのメモリが不足して"
    "プログラムが停止しました。ログファイルを確認して、エラーを修正してください。ありがとうございます。天気がいいから"
    "、公園へ散歩に行きましょう。カタカナの単語もたくさん使います:コンピューター、インターネット、データベース。"
)
KOREAN = (
    "이 시스템은 제한된 컨텍스트에서 대화 기록을 모두 보존하는 것을 목표로 합니다. 오래된 메시지는 요약"
    "되지만 원래 내용은 데이터베이스에 남아 있습니다. 어제 오후 세 시에 서울에서 회의가 있었습니다. 서"
    "버의 메모리가 부족하여 프로그램이 중단되었습니다. 로그 파일을 확인하고 오류를 수정해 주세요. 감사합"
    "니다."
)
RUSSIAN = (
    "Эта система предназначена для сохранения всей истории разговора в ограниченном контексте. Старые "
    "сообщения сворачиваются в краткие изложения, но исходный текст остаётся в базе данных. Вчера в три часа "
    "дня в Москве состоялось совещание. Серверу не хватило памяти, и программа завершилась с ошибкой. "
    "Пожалуйста, проверьте файл журнала и исправьте ошибку. Большое спасибо за помощь! Погода сегодня хорошая, "
    "пойдём гулять в парк. Необходимо найти равновесие между развитием экономики и охраной окружающей среды."
)


def _sentences(text: str, ends: str, chance: random.Random, size: int = 60_000) -> str:
    """The sentences of a text in random order, again and again."""
    for end in ends:
        text = text.replace(end, end + "\0")
    parts, made, length = [part for part in text.split("\0") if part], [], 0
    while length < size:
        made.append(chance.choice(parts))
        length += len(made[-1])
    return "".join(made)


def _log(chance: random.Random) -> str:
    def line() -> str:
        n = chance.randint
        at = f"2026-{n(1, 12):02}-{n(1, 28):02}T{n(0, 23):02}:{n(0, 59):02}:{n(0, 59):02}.{n(0, 999):03}Z"
        what = chance.choice((
            f"GET /api/v1/users/{n(1, 99_999)}/orders?cursor={chance.getrandbits(64):x} 200 {n(1, 900)}ms",
            f"connection from 10.{n(0, 255)}.{n(0, 255)}.{n(0, 255)}:{n(1024, 65_535)} closed",
            f"request_id={uuid.UUID(int=chance.getrandbits(128))} status=200 bytes={n(100, 10**7)}",
            f"pid={n(1, 32_768)} uid=0 addr=0x{chance.getrandbits(48):012x} retry {n(1, 9)} after timeout",
        ))  # fmt: skip
        return f"{at} [{chance.choice(('INFO', 'WARN', 'ERROR'))}] {chance.choice(('http', 'db.pool', 'auth'))}: {what}"

    return "\n".join(line() for _ in range(1_000))


def _hexdump(data: bytes) -> str:
    def line(start: int) -> str:
        row = data[start : start + 16]
        shown = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in row)
        return f"{start:08x}  {' '.join(f'{byte:02x}' for byte in row)}  |{shown}|"

    return "\n".join(line(start) for start in range(0, len(data), 16))


def _records(chance: random.Random, indent: int | None) -> str:
    words = ENGLISH.split()
    rows = [
        {
            "id": chance.randint(1, 10**6), "uuid": str(uuid.UUID(int=chance.getrandbits(128))),
            "name": " ".join(chance.sample(words, 3)), "price": round(chance.random() * 1_000, 2), "is_active": True,
            "tags": chance.sample(words, 3), "created_at": f"2026-0{chance.randint(1, 9)}-11T10:00:00Z", "parent": None,
        }
        for _ in range(300)
    ]  # fmt: skip
    return json.dumps(rows, indent=indent)


def made_up(seed: int = SEED) -> dict[str, str]:
    """Texts that follow from the seed alone."""
    chance = random.Random(seed)
    return {
        "English": _sentences(ENGLISH, ".", chance),
        "logs": _log(chance),
        "hex dump": _hexdump(chance.randbytes(30_000)),
        "hex": chance.randbytes(60_000).hex(),
        "SHA-256": "\n".join(f"{hashlib.sha256(b'%d' % n).hexdigest()}  dir/file_{n}.txt" for n in range(1_500)),
        "UUIDs": "\n".join(str(uuid.UUID(int=chance.getrandbits(128))) for _ in range(3_000)),
        "base64": base64.b64encode(chance.randbytes(90_000)).decode(),
        "base64 in lines": base64.encodebytes(chance.randbytes(90_000)).decode(),
        "JSON": _records(chance, None),
        "JSON, indented": _records(chance, 2),
        "numbers": " ".join(str(chance.randint(0, 10 ** chance.randint(1, 12))) for _ in range(10_000)),
        "Chinese": _sentences(CHINESE, "。,", chance),
        "Japanese": _sentences(JAPANESE, "。、", chance),
        "Korean": _sentences(KOREAN, ".", chance),
        "Russian": _sentences(RUSSIAN, ".", chance),
    }  # fmt: skip


def kinds() -> dict[str, str]:
    """A long text of each kind: made up, sources and pages of the project, sources of Python, real sessions."""
    chance = random.Random(SEED)
    here, library = Path(__file__).parents[1], Path(sysconfig.get_paths()["stdlib"])
    source = "".join((library / f"{name}.py").read_text("utf-8") for name in _MODULES)
    made = made_up() | {
        "Python": source,
        "SQL": "".join(path.read_text("utf-8") for path in sorted((here / "src").rglob("*.sql"))),
        "JavaScript": "".join(path.read_text("utf-8") for path in sorted((here / "bridges").rglob("*.[jm]*s"))
                              if "node_modules" not in path.parts),
        "Markdown": "".join(path.read_text("utf-8") for path in sorted((here / "docs").rglob("*.md"))),
    }  # fmt: skip
    made |= _shared()
    parts = [made[kind] for kind in ("English", "Python", "logs", "JSON", "Chinese", "Russian", "hex dump")]
    starts = [(part, chance.randint(0, len(part) - 500)) for part in chance.choices(parts, k=300)]
    return made | {"mixed": "\n".join(part[start : start + 300] for part, start in starts)}


def _shared() -> dict[str, str]:
    """Real dialogues and sessions, where they are beside the project."""
    found = {}
    dialogues = _SHARED / "locomo" / "locomo-dev5.json"
    if dialogues.exists():
        talks = [talk["conversation"] for talk in json.loads(dialogues.read_text("utf-8"))]
        said = [turn for talk in talks for value in talk.values() if isinstance(value, list) for turn in value]
        found["English, dialogues"] = "\n".join(f"{turn['speaker']}: {turn['text']}" for turn in said)
    for name in ("pi-large-session.jsonl", "cc_session_b.jsonl", "tau-bench-airline-20.json"):
        if (path := _SHARED / "transcripts" / name).exists():
            found[path.stem] = path.read_text("utf-8")[:600_000]
    return found
